// The wire cases, through `fetch` and a server on a loopback port.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { test } from 'node:test'

import { restitch } from 'restitch'

import { reply, serve } from './server.mjs'
import { CASES, assertFits, fits } from './wire-cases.mjs'

function replies(wire) {
  const texts = wire.texts('upstream')
  return wire.calls.map((call) => {
    if (call === 'refused') return undefined
    const [status, type, end] = call.split(' ')
    return reply(texts.shift().split('----\n'), { status: Number(status), type, end })
  })
}

async function closedPort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  return port
}

/** Makes the call of a case. `leave`: ends it after so many events, by an abort or by closing the stream. */
async function run(context, wire, { leave = Infinity, by } = {}) {
  const answers = replies(wire)
  const server = await serve(context, ...answers.filter(Boolean))
  const events = []
  const refusing = async (url, init) => {
    const answer = answers.length ? answers.shift() : reply([])
    return fetch(answer ? url : url.replace(`:${server.port}`, `:${await closedPort()}`), init)
  }
  const whole = restitch({ fetch: refusing, onEvent: (event) => events.push(event), ...wire.settings })
  const abort = new AbortController()
  const response = await whole(server.url + wire.fact('path'), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: wire.texts('request')[0],
    signal: abort.signal,
  })
  const result = { server, events, status: response.status, body: '', end: 'closed' }
  const decoder = new TextDecoder()
  try {
    for await (const part of response.body) {
      result.body += decoder.decode(part, { stream: true })
      if (result.body.split('data: ').length - 1 <= leave) continue
      if (by === 'close') break
      abort.abort()
    }
  } catch (error) {
    result.end = error.name === 'AbortError' ? 'aborted' : 'dropped'
  }
  return result
}

const received = (body) =>
  body
    .replaceAll('\r\n', '\n')
    .split('\n\n')
    .filter((event) => event.includes('data: '))
    .map((event) => event.slice(event.indexOf('data: ') + 6))

test('there are enough cases', () => assert.ok(CASES.length >= 60))

for (const wire of CASES) {
  test(`wire case ${wire.name}`, async (context) => {
    const { server, events, status, body, end } = await run(context, wire)
    // A call whose connection is refused reaches no server.
    const further = wire.calls.slice(1)
    const patterns = wire.texts('asked').filter((_, at) => further[at] !== 'refused')
    const asked = server.requests.slice(1).map((request) => request.body || `${request.method} ${request.path}`)
    assertFits('asked', patterns, asked)
    const given = received(body)
    assertFits('client', wire.texts('client')[0].split('\n'), given.length ? given : [body])
    assert.equal(end, wire.fact('end') ?? 'closed')
    if (given.length === 0) assert.equal(status, Number(wire.fact('status') ?? 200))
    const reports = events.filter(({ event }) => event === 'done')
    assertFits('report', wire.texts('report'), reports.map((report) => JSON.stringify(report)))
    assert.equal(server.replies.length, 0, 'a call was not made')
  })
}

const STREAMED = CASES.filter(({ calls }) => calls[0].includes('event-stream') && !calls.includes('refused'))

for (const by of ['abort', 'close']) {
  for (const wire of STREAMED) {
    test(`a client that leaves ${wire.name} after any event by ${by} ends the answer`, async (context) => {
      let abandoned = 0
      for (let leave = 0; leave < wire.texts('client')[0].split('\n').length; leave++) {
        const { server, events, end } = await run(context, wire, { leave, by })
        // An answer has one report, also if its client leaves.
        const reports = events.filter(({ event }) => event === 'done')
        assert.equal(reports.length, 1)
        const made = server.requests.length
        if (reports[0].stop === 'abandoned') {
          abandoned += 1
          assert.equal(reports[0].status, 'incomplete')
          assert.equal(end, by === 'abort' ? 'aborted' : 'closed')
          await new Promise((resolve) => setTimeout(resolve, 10))
        } else {
          assertFits('report', wire.texts('report'), [JSON.stringify(reports[0])])
          assert.equal(made, wire.calls.length)
        }
        assert.equal(server.requests.length, made, 'nothing is asked for after the client has left')
      }
      // Only the client that leaves after the last event can have a whole answer.
      assert.ok(abandoned > 0 || wire.calls.length === 1)
    })
  }
}

test('a pattern can fail', () => {
  for (const [pattern, value, expected] of [
    [{ a: 1 }, { a: 1, b: 2 }, true],
    [{ a: 1 }, { a: 2 }, false],
    [{ a: null }, {}, false],
    [[1, {}], [1, { a: 2 }], true],
    [[1], [1, 2], false],
    ['a…c…', 'abcd', true],
    ['…c', 'abcd', false],
    ['ab…ba', 'aba', false],
  ]) {
    assert.equal(fits(pattern, value), expected)
  }
})

test('the package is the installed one', () => {
  assert.match(import.meta.resolve('restitch'), /node_modules\/restitch\//)
})
