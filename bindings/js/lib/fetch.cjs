'use strict'

const { Answer } = require('./answer.cjs')
const native = require('./native.cjs')
const { checked } = require('./options.cjs')

function restitch(options = {}) {
  const { fetch, onEvent, settings } = checked(options, ['fetch', 'onEvent'])

  return async (input, init) => {
    // A middleware of Anthropic's SDK gets the request in one object, and the rest of the chain.
    const isMiddleware = typeof init === 'function'
    const make = isMiddleware ? init : ({ url, ...rest }) => (fetch ?? globalThis.fetch)(url, rest)
    const pass = () => (isMiddleware ? init(input) : (fetch ?? globalThis.fetch)(input, init))

    const target = targetOf(input, isMiddleware ? input : init)
    if (target === undefined) return pass()
    const request = requestOf(input, isMiddleware ? input : init)
    const content = await contentOf(request.body)
    if (content === undefined) return make(request)
    request.body = content
    const exchange = native.exchangeForRequest(
      target.hostname,
      target.pathname + target.search,
      typeof content === 'string' ? Buffer.from(content) : content,
      settings,
    )
    if (!exchange) return make(request)
    // Compression would hide the end of a cut body.
    request.headers.set('accept-encoding', 'identity')

    const answer = new Answer(exchange, request, make, onEvent)
    const response = await answer.open()
    if (!answer.isRead) return response
    return exchange.isStream ? streamed(response, answer) : whole(response, answer)
  }
}

/** Returns the URL of a request that may be one of a known API. */
function targetOf(input, init) {
  const isRequest = input instanceof Request
  const method = init?.method ?? (isRequest ? input.method : 'GET')
  if (method.toUpperCase() !== 'POST') return undefined
  const url = typeof input === 'string' || input instanceof URL ? input : input.url
  if (!URL.canParse(url)) return undefined
  const headers = new Headers(init?.headers ?? (isRequest ? input.headers : undefined))
  // The signature is of this body, and no other one can be sent with it.
  if (headers.get('authorization')?.startsWith('AWS4-')) return undefined
  const target = new URL(url)
  return native.isKnownPath(target.pathname) ? target : undefined
}

/** Returns a request as one object: its URL and the options of `fetch`. */
function requestOf(input, init) {
  let request = { ...init }
  if (input instanceof Request) {
    const { url, method, headers, body, signal, redirect, credentials, keepalive } = new Request(input, init)
    request = { ...init, url, method, headers, body, signal, redirect, credentials, keepalive }
  } else if (typeof input === 'string' || input instanceof URL) {
    request.url = String(input)
  }
  request.headers = new Headers(request.headers)
  return request
}

/** Reads the body of a request. `undefined`: it is of a type that no request of an API has. */
async function contentOf(body) {
  if (typeof body === 'string') return body
  if (body instanceof ArrayBuffer) return new Uint8Array(body)
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength)
  if (body instanceof Blob || body instanceof ReadableStream) {
    return new Uint8Array(await new Response(body).arrayBuffer())
  }
  return undefined
}

/** Returns the response that the client streams. `first`: bytes that are read already. */
function streamed(response, answer, first) {
  const body = new ReadableStream(
    {
      async pull(controller) {
        const bytes = first ?? (await answer.bytes())
        first = undefined
        if (bytes) controller.enqueue(bytes)
        else controller.close()
      },
      cancel(reason) {
        answer.abandon(reason)
      },
    },
    // Nothing is read from the upstream before the client wants it.
    { highWaterMark: 0 },
  )
  return replaced(response, response.status, body)
}

/** Reads an answer to its end. Returns a response with its whole body. */
async function whole(response, answer) {
  const bytes = await answer.bytes()
  // A body that is too large to be read passes while it arrives.
  if (!answer.isOver) return streamed(response, answer, bytes)
  return replaced(response, answer.status, bytes)
}

/** Returns a response like another one, with another body. */
function replaced(response, status, body) {
  const headers = new Headers(response.headers)
  // The body is decoded, and continuations make it longer than the first response announced.
  for (const name of ['content-encoding', 'content-length', 'transfer-encoding']) headers.delete(name)
  // These calls are made and paid: the SDK should not repeat them.
  if (status !== response.status) headers.set('x-should-retry', 'false')
  const statusText = status === response.status ? response.statusText : ''
  const made = new Response(body, { status, statusText, headers })
  // The constructor has no option for it.
  Object.defineProperty(made, 'url', { value: response.url })
  return made
}

module.exports = { restitch }
