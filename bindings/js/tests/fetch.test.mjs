// What a client may do while its answer is made whole.

import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { gzipSync } from 'node:zlib'

import { restitch } from 'restitch'

import { reply, serve, until } from './server.mjs'

const PATH = '/v1/chat/completions'
const ASK = { model: 'm', stream: true, messages: [{ role: 'user', content: 'Count.' }] }

const chunk = (content, finish = null) => {
  const delta = content === undefined ? {} : { content }
  return `data: ${JSON.stringify({ id: 'a', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
}
const cut = (end = 'dropped') => reply([chunk('[1, 2')], { end })
const rest = () => reply([chunk('[1, 2, 3]') + chunk(undefined, 'stop') + 'data: [DONE]\n\n'])
const body = (text, finish) => {
  const message = { role: 'assistant', content: text }
  return reply([JSON.stringify({ id: 'a', choices: [{ index: 0, message, finish_reason: finish }] })], { type: 'application/json' })
}

const post = (ask = ASK, more = {}) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(ask),
  ...more,
})

const textOf = (text) =>
  text
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .flatMap((event) => JSON.parse(event.slice(6)).choices ?? [])
    .map(({ delta }) => delta.content ?? '')
    .join('')

test('a cut answer is whole', async (context) => {
  const server = await serve(context, cut(), rest())
  const response = await restitch()(server.url + PATH, post())
  assert.equal(response.url, server.url + PATH)
  assert.equal(textOf(await response.text()), '[1, 2, 3]')
})

test('the key and the headers go with each call', async (context) => {
  const server = await serve(context, cut(), rest())
  const headers = { authorization: 'Bearer key', 'x-own': '1', 'idempotency-key': 'once', 'content-digest': 'x' }
  await (await restitch()(`${server.url}${PATH}?api-version=1`, post(ASK, { headers }))).text()
  const [first, second] = server.requests
  for (const request of [first, second]) {
    assert.equal(request.path, `${PATH}?api-version=1`)
    assert.equal(request.headers.authorization, 'Bearer key')
    assert.equal(request.headers['x-own'], '1')
    assert.equal(request.headers['accept-encoding'], 'identity')
  }
  // The upstream would replay the first answer.
  assert.equal(first.headers['idempotency-key'], 'once')
  assert.equal(second.headers['idempotency-key'], undefined)
  assert.equal(second.headers['content-digest'], undefined)
})

test('each form of a request body is read once', async (context) => {
  const text = JSON.stringify(ASK)
  const bytes = new TextEncoder().encode(text)
  const stream = () => new ReadableStream({ start: (c) => (c.enqueue(bytes.slice(0, 9)), c.enqueue(bytes.slice(9)), c.close()) })
  const forms = [
    (url) => [url, post()],
    (url) => [new URL(url), post(ASK, { body: bytes })],
    (url) => [url, post(ASK, { body: bytes.buffer })],
    (url) => [url, post(ASK, { body: new Blob([text]) })],
    (url) => [url, post(ASK, { body: stream(), duplex: 'half' })],
    (url) => [new Request(url, post())],
    (url) => [new Request(url, { ...post(ASK, { body: stream() }), duplex: 'half' })],
    (url) => [new Request(url, post({})), { body: text }],
  ]
  for (const form of forms) {
    const server = await serve(context, cut(), rest())
    const [input, init] = form(server.url + PATH)
    const response = await restitch()(input, init)
    assert.equal(textOf(await response.text()), '[1, 2, 3]')
    assert.equal(server.requests[0].body, text)
    assert.equal(JSON.parse(server.requests[1].body).messages.length, 3)
    if (input instanceof Request && init === undefined) assert.ok(input.bodyUsed)
  }
})

test('other requests pass unchanged', async (context) => {
  const plain = () => reply(['cut'], { type: 'text/plain', headers: { 'x-a': 'b' } })
  const server = await serve(context, plain(), plain(), plain(), plain())
  const whole = restitch()
  assert.equal(await (await whole(`${server.url}/v1/models`)).text(), 'cut')
  const response = await whole(`${server.url}/v1/embeddings`, post({ input: 'a' }))
  assert.equal(await response.text(), 'cut')
  assert.equal(response.headers.get('x-a'), 'b')
  assert.equal(await (await whole(server.url + PATH, post({}))).text(), 'cut')
  const form = new FormData()
  form.set('a', 'b')
  assert.equal(await (await whole(server.url + PATH, { method: 'POST', body: form })).text(), 'cut')
  for (const { headers } of server.requests) assert.notEqual(headers['accept-encoding'], 'identity')
})

test('a signed request passes unchanged', async (context) => {
  const server = await serve(context, cut('closed'))
  const headers = { authorization: 'AWS4-HMAC-SHA256 Credential=a' }
  assert.equal(textOf(await (await restitch()(server.url + PATH, post(ASK, { headers }))).text()), '[1, 2')
})

for (const status of [400, 401, 429, 500]) {
  test(`an error ${status} of the first call passes`, async (context) => {
    const refused = reply(['{"error":{"message":"no"}}'], { status, type: 'application/json', headers: { 'retry-after': '1' } })
    const server = await serve(context, refused)
    const response = await restitch()(server.url + PATH, post())
    assert.equal(response.status, status)
    assert.deepEqual(await response.json(), { error: { message: 'no' } })
    assert.equal(response.headers.get('retry-after'), '1')
  })
}

test('an error of the first connection is that of fetch', async (context) => {
  const server = await serve(context)
  const failing = async () => {
    throw Object.assign(new TypeError('fetch failed'), { code: 'OWN' })
  }
  await assert.rejects(restitch({ fetch: failing })(server.url + PATH, post()), { code: 'OWN' })
})

test('a compressed answer is read', async (context) => {
  const compressed = reply([gzipSync(chunk('[1, 2') + chunk(undefined, 'length'))], { headers: { 'content-encoding': 'gzip' } })
  const server = await serve(context, compressed, rest())
  const response = await restitch()(server.url + PATH, post())
  assert.equal(response.headers.get('content-encoding'), null)
  assert.equal(textOf(await response.text()), '[1, 2, 3]')
})

test('closing the stream closes the upstream', async (context) => {
  const server = await serve(context, cut('silent'))
  const events = []
  const response = await restitch({ onEvent: (event) => events.push(event) })(server.url + PATH, post())
  const reader = response.body.getReader()
  await reader.read()
  await reader.cancel()
  await until(() => server.closed === 1)
  assert.deepEqual(events.map(({ event, stop }) => [event, stop]), [['done', 'abandoned']])
})

test('closing the stream while it waits closes the upstream', async (context) => {
  const server = await serve(context, cut('silent'))
  const reader = (await restitch()(server.url + PATH, post())).body.getReader()
  await reader.read()
  const waiting = reader.read()
  await reader.cancel()
  assert.ok((await waiting).done)
  await until(() => server.closed === 1)
})

test('closing the stream during the rest closes the upstream', async (context) => {
  const server = await serve(context, cut(), reply([chunk('[1, 2, 3')], { end: 'silent' }))
  const response = await restitch()(server.url + PATH, post())
  for await (const part of response.body) if (Buffer.from(part).includes(', 3')) break
  await until(() => server.closed === 1)
  assert.equal(server.requests.length, 2)
})

for (const stream of [true, false]) {
  test(`an abort closes the upstream of ${stream ? 'a stream' : 'a whole answer'}`, async (context) => {
    const type = stream ? 'text/event-stream' : 'application/json'
    const server = await serve(context, reply([stream ? chunk('[1, 2') : '{"id":"a",'], { type, end: 'silent' }))
    const events = []
    const abort = new AbortController()
    const reason = new Error('enough')
    const whole = restitch({ onEvent: (event) => events.push(event) })
    const read = async () => (await whole(server.url + PATH, post({ ...ASK, stream }, { signal: abort.signal }))).text()
    const reading = assert.rejects(read(), reason)
    await until(() => server.written > 0)
    await new Promise((resolve) => setTimeout(resolve, 50))
    abort.abort(reason)
    await reading
    await until(() => server.closed === 1)
    assert.deepEqual(events.map(({ event, stop }) => [event, stop]), [['done', 'abandoned']])
  })
}

test('an abort before the response is an error of fetch', async (context) => {
  const server = await serve(context, reply([], { delay: 10_000 }))
  const early = AbortSignal.abort()
  await assert.rejects(restitch()(server.url + PATH, post(ASK, { signal: early })), { name: 'AbortError' })
  assert.equal(server.requests.length, 0)
  const abort = new AbortController()
  const never = (url, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  const waiting = restitch({ fetch: never })(server.url + PATH, post(ASK, { signal: abort.signal }))
  setImmediate(() => abort.abort())
  await assert.rejects(waiting, { name: 'AbortError' })
})

test('an abort while a further call is due ends the wait', async (context) => {
  const busy = () => reply(['{}'], { status: 429, type: 'application/json', headers: { 'retry-after': '30' } })
  const server = await serve(context, cut(), busy(), busy())
  const abort = new AbortController()
  const response = await restitch()(server.url + PATH, post(ASK, { signal: abort.signal }))
  const reading = assert.rejects(response.text(), { name: 'AbortError' })
  await until(() => server.requests.length === 2)
  await new Promise((resolve) => setTimeout(resolve, 50))
  abort.abort()
  await reading
  assert.equal(server.requests.length, 2)
})

test('a signal has no listener after an answer', async (context) => {
  const server = await serve(context, cut(), rest())
  const { signal } = new AbortController()
  let listeners = 0
  const added = signal.addEventListener.bind(signal)
  const removed = signal.removeEventListener.bind(signal)
  signal.addEventListener = (...args) => ((listeners += 1), added(...args))
  signal.removeEventListener = (...args) => ((listeners -= 1), removed(...args))
  await (await restitch()(server.url + PATH, post(ASK, { signal }))).text()
  assert.equal(listeners, 0)
})

test('a client that does not read holds the upstream', async (context) => {
  const piece = chunk('x'.repeat(1 << 16))
  const server = await serve(context, reply([chunk('["'), ...Array(400).fill(piece), chunk('"]'), chunk(undefined, 'stop')]))
  const response = await restitch()(server.url + PATH, post())
  const reader = response.body.getReader()
  await reader.read()
  let before
  do {
    before = server.written
    await new Promise((resolve) => setTimeout(resolve, 100))
  } while (server.written > before)
  assert.ok(server.written < (piece.length * 400) / 2, `${server.written} bytes`)
  let size = 0
  for (let part; !(part = await reader.read()).done; ) size += part.value.length
  assert.ok(size > piece.length * 400)
})

test('a client that pauses longer than the idle timeout loses nothing', async (context) => {
  const server = await serve(context, reply([chunk('[1, 2'), chunk(', 3]'), chunk(undefined, 'stop'), 'data: [DONE]\n\n']))
  const response = await restitch({ idleTimeout: 50 })(server.url + PATH, post())
  const parts = []
  for await (const part of response.body) {
    parts.push(part)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  assert.equal(textOf(Buffer.concat(parts).toString()), '[1, 2, 3]')
  assert.equal(server.requests.length, 1)
})

test('a stream has one report, before its last bytes', async (context) => {
  const server = await serve(context, cut(), rest())
  const events = []
  const response = await restitch({ onEvent: (event) => events.push(event) })(server.url + PATH, post())
  for await (const part of response.body) {
    // A client that stops at `[DONE]` has it.
    if (Buffer.from(part).includes('[DONE]')) {
      assert.equal(events.at(-1).status, 'complete')
      break
    }
  }
  assert.deepEqual(events.map(({ event }) => event), ['cut', 'requested', 'joined', 'done'])
  assert.equal(events[2].path, '/1')
})

test('an error of the callback does not break the answer', async (context) => {
  const log = mock.method(console, 'error', () => {})
  context.after(() => log.mock.restore())
  for (const onEvent of [() => assert.fail('callback'), async () => assert.fail('callback')]) {
    const server = await serve(context, cut(), rest())
    const response = await restitch({ onEvent })(server.url + PATH, post())
    assert.equal(textOf(await response.text()), '[1, 2, 3]')
  }
  assert.equal(log.mock.callCount(), 8)
})

test('a failed whole answer asks an SDK not to retry', async (context) => {
  const no = reply(['{"error":{"message":"no"}}'], { status: 400, type: 'application/json' })
  const server = await serve(context, body('[1, 2', 'length'), no)
  const whole = restitch({ maxContinuations: 1, onGiveUp: 'error' })
  const response = await whole(server.url + PATH, post({ ...ASK, stream: false }))
  assert.equal(response.status, 502)
  assert.equal(response.headers.get('x-should-retry'), 'false')
})

test('a middleware is the same function', async (context) => {
  const server = await serve(context, cut(), rest(), reply(['other'], { type: 'text/plain' }))
  const seen = []
  const next = ({ url, ...init }) => {
    seen.push(init.headers instanceof Headers)
    return fetch(url, init)
  }
  const request = { url: server.url + PATH, ...post(), headers: new Headers({ 'content-type': 'application/json' }) }
  assert.equal(textOf(await (await restitch()(request, next, {})).text()), '[1, 2, 3]')
  const other = { url: `${server.url}/v1/models`, method: 'GET', headers: new Headers() }
  assert.equal(await (await restitch()(other, next)).text(), 'other')
  assert.deepEqual(seen, [true, true, true])
})

test('a body of another implementation of fetch is read', async (context) => {
  const server = await serve(context, cut('closed'), rest())
  const whole = restitch({
    fetch: async (url, init) => {
      const response = await fetch(url, init)
      const { status, headers, body } = response
      return { status, headers, url, statusText: 'OK', body: { [Symbol.asyncIterator]: () => body[Symbol.asyncIterator]() } }
    },
  })
  assert.equal(textOf(await (await whole(server.url + PATH, post())).text()), '[1, 2, 3]')
})

test('a wrong option is an error at once', () => {
  for (const options of [
    { onGiveUp: 'retry' },
    { repair: 'all' },
    { prose: 'x' },
    { idleTimeout: -1 },
    { idleTimeout: '1' },
    { maxContinuations: 1.5 },
    { retries: 3 },
    { onEvent: 'log' },
    { fetch: {} },
  ]) {
    assert.throws(() => restitch(options), TypeError, JSON.stringify(options))
  }
})
