'use strict'

// The first call's key would make the upstream replay that answer, and a digest of the old body does not match the new one.
const FIRST_CALL_ONLY = [
  'content-digest',
  'content-length',
  'content-md5',
  'digest',
  'idempotency-key',
  'repr-digest',
  'transfer-encoding',
]

// The longest time that a timer of Node can wait for.
const LONGEST = 2 ** 31 - 1

// A client that reads again after a long pause finds bytes that have waited in the socket, and not in Node. They take a turn
// of the event loop, or a few on a busy machine.
const GRACE = 100

const TIMEOUT = Symbol('timeout')
const LEFT = Symbol('left')

/** The answer to one request: makes its calls, and drives its exchange. Only one method waits at a time. */
class Answer {
  #exchange
  #request
  #make
  #onEvent
  #origin = performance.now()
  /** Ends the open call. */
  #controller
  /** Reads the body of the open call. */
  #reader
  /** The response or the bytes that the open call is waited for. */
  #pending
  /** The call to make. */
  #next
  #done
  #left
  #wake
  /** How the last call failed. */
  #error

  constructor(exchange, request, make, onEvent) {
    this.#exchange = exchange
    this.#request = request
    this.#make = make
    this.#onEvent = onEvent
    request.signal?.addEventListener('abort', this.#onAbort, { once: true })
  }

  /** Makes the first call. Returns its response; an error of it is the caller's. */
  async open() {
    try {
      const response = await this.#send(this.#request)
      // The client has left after the head, but before `fetch` returned.
      this.#request.signal?.throwIfAborted()
      this.#head(response)
      return response
    } catch (error) {
      this.#request.signal?.removeEventListener('abort', this.#onAbort)
      throw error
    }
  }

  /** The body of the open response is read. */
  get isRead() {
    return this.#reader !== undefined
  }

  get isOver() {
    return this.#done !== undefined
  }

  /** The status of a response in one body. */
  get status() {
    return this.#done.status
  }

  /** Returns the next bytes for the client; `undefined` at the end. */
  async bytes() {
    for (;;) {
      if (this.#left) throw this.#left.reason
      if (this.#done?.isDropped) {
        // The client must see that the stream is not whole, as it would without this package.
        throw new TypeError('the answer was cut off and could not be completed', { cause: this.#error })
      }
      if (this.#done) return undefined
      await this.#input()
      if (this.#left) continue
      const bytes = this.#outputs()
      if (bytes) return bytes
    }
  }

  /** Ends the answer: the client has left. */
  abandon(reason) {
    if (this.#left || this.#done) return
    this.#left = { reason }
    this.#close(reason)
    this.#report(this.#exchange.abandoned())
    this.#wake?.(LEFT)
  }

  #onAbort = () => {
    const { reason } = this.#request.signal
    // Before the first bytes the error of the open call is the caller's.
    if (this.#reader || this.#pending || this.#next) this.abandon(reason)
    else this.#controller?.abort(reason)
  }

  /** Waits for one input, and gives it to the exchange. */
  async #input() {
    let due = Math.min(this.#exchange.timeoutAt() ?? Infinity, this.#next?.at ?? Infinity)
    if (!this.#pending && this.#reader) {
      this.#pending = settled(this.#reader.read())
      due = Math.max(due, this.#now() + GRACE)
    } else if (!this.#pending && this.#next?.at <= this.#now()) {
      this.#pending = settled(this.#send(this.#further(this.#next)))
      this.#next = undefined
    }
    const item = await this.#wait(due)
    if (this.#left) return
    const now = this.#now()
    if (item === TIMEOUT) return this.#exchange.timeout(now)
    this.#pending = undefined
    if (this.#reader) this.#body(now, item)
    else if ('value' in item) {
      this.#head(item.value)
      if (!this.#reader) item.value.body?.cancel?.().catch(() => {})
    } else {
      this.#error = item.error
      this.#exchange.callFailed(now, String(item.error?.message ?? item.error))
    }
  }

  #body(now, { value, error }) {
    if (value && !value.done) return this.#exchange.bytes(now, value.value)
    this.#reader = undefined
    this.#error = error
    this.#exchange.end(now, value === undefined)
  }

  /** Waits for the open call, at most until a time. */
  async #wait(until) {
    let timer
    try {
      return await new Promise((resolve) => {
        this.#wake = resolve
        this.#pending?.then(resolve)
        const wait = Math.min(Math.max(until - this.#now(), 1), LONGEST)
        if (until < Infinity) timer = setTimeout(resolve, wait, TIMEOUT)
      })
    } finally {
      clearTimeout(timer)
      this.#wake = undefined
    }
  }

  /** Takes the outputs of the exchange. Returns bytes for the client. */
  #outputs() {
    const { bytes, events, call, done } = this.#exchange.poll()
    for (const event of events) this.#report(event)
    if (call || done) this.#close()
    if (call) this.#next = call
    if (done) {
      this.#done = done
      this.#request.signal?.removeEventListener('abort', this.#onAbort)
      this.#report(done.report)
    }
    return bytes
  }

  /** Takes the head of a response to the open call, and reads its body if the exchange does. */
  #head(response) {
    const { headers } = response
    const isRead = this.#exchange.response(
      this.#now(),
      response.status,
      headers.get('content-type') ?? '',
      retryAfter(headers.get('retry-after')),
      headers.get('server') ?? undefined,
    )
    if (isRead) this.#reader = readerOf(response.body)
  }

  async #send(request) {
    const controller = new AbortController()
    this.#controller = controller
    const { signal } = this.#request
    if (signal?.aborted) controller.abort(signal.reason)
    const response = await this.#make({ ...request, signal: controller.signal })
    // Another implementation of `fetch` may not know signals.
    if (controller.signal.aborted) response.body?.cancel?.().catch(() => {})
    return response
  }

  /** Returns the request of a further call. */
  #further({ method, path, body }) {
    const headers = new Headers(this.#request.headers)
    for (const name of FIRST_CALL_ONLY) headers.delete(name)
    const url = new URL(path, this.#request.url).href
    return { ...this.#request, method, url, headers, body: method === 'POST' ? body : undefined }
  }

  /** Ends the open call, and its connection if its body has not ended. */
  #close(reason) {
    const isOpen = this.#reader !== undefined || this.#pending !== undefined
    if (isOpen) this.#controller?.abort(reason)
    this.#reader?.cancel(reason)
    this.#controller = this.#reader = this.#pending = this.#next = undefined
  }

  /** Reports an event. An error in the callback must not break the answer. */
  #report(json) {
    if (this.#onEvent === undefined) return
    const failed = (error) => console.error('restitch: onEvent failed', error)
    try {
      Promise.resolve(this.#onEvent(JSON.parse(json))).catch(failed)
    } catch (error) {
      failed(error)
    }
  }

  #now() {
    return performance.now() - this.#origin
  }
}

/** Returns a promise of how another one ends. */
function settled(promise) {
  return promise.then(
    (value) => ({ value }),
    (error) => ({ error }),
  )
}

/** Returns a reader of a body: a stream of the Web, or of another implementation of `fetch`. */
function readerOf(body) {
  if (body === null) return { read: async () => ({ done: true }), cancel() {} }
  if (typeof body.getReader === 'function') {
    const reader = body.getReader()
    return { read: () => reader.read(), cancel: (reason) => void reader.cancel(reason).catch(() => {}) }
  }
  const parts = body[Symbol.asyncIterator]()
  return { read: () => parts.next(), cancel: () => void body.destroy?.() }
}

/** Reads `Retry-After`: seconds, or a date. */
function retryAfter(value) {
  if (value === null) return undefined
  const seconds = Number(value)
  const millis = Number.isNaN(seconds) ? Date.parse(value) - Date.now() : seconds * 1e3
  return Number.isFinite(millis) ? Math.max(millis, 0) : undefined
}

module.exports = { Answer }
