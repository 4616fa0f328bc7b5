// Servers that answer as a test says, on a loopback port of their own.

import { once } from 'node:events'
import { createServer } from 'node:http'

/** The answer to one call. `end`: `closed`, `dropped`, or `silent` until the client closes the connection. */
export const reply = (pieces, { status = 200, type = 'text/event-stream', end = 'closed', headers = {}, delay = 0 } = {}) => ({
  pieces,
  status,
  type,
  end,
  headers,
  delay,
})

/** Answers each call with the next reply. */
export async function serve(context, ...replies) {
  const server = createServer(async (request, response) => {
    const parts = []
    for await (const part of request) parts.push(part)
    const received = { path: request.url, method: request.method, headers: request.headers, body: Buffer.concat(parts).toString() }
    started.requests.push(received)
    const next = started.replies.shift() ?? reply(['no reply is left'], { status: 500, type: 'text/plain' })
    await answer(response, typeof next === 'function' ? next(received) : next, started)
  })
  const started = { replies, requests: [], written: 0, closed: 0 }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  started.port = server.address().port
  started.url = `http://127.0.0.1:${started.port}`
  context.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return started
}

async function answer(response, { pieces, status, type, end, headers, delay }, started) {
  response.on('close', () => {
    if (!response.writableFinished) started.closed += 1
  })
  response.writeHead(status, { 'content-type': type, ...headers })
  response.flushHeaders()
  if (delay) await new Promise((resolve) => setTimeout(resolve, delay))
  const closed = once(response, 'close')
  for (const piece of pieces) {
    if (response.destroyed) return
    if (piece.length === 0) continue
    if (!response.write(piece)) await Promise.race([once(response, 'drain'), closed])
    started.written += piece.length
  }
  if (end === 'closed') response.end()
  if (end === 'dropped') response.socket?.end()
}

/** Waits until a condition holds. */
export async function until(condition) {
  for (let tries = 0; !condition(); tries++) {
    if (tries === 500) throw new Error('a condition has not come to hold in 5 s')
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

export const sse = (...events) =>
  events.map((event) => `${event.type ? `event: ${event.type}\n` : ''}data: ${JSON.stringify(event)}\n\n`).join('')
