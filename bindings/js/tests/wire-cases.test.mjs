// The wire cases, through `fetch` and a server on a loopback port.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { describe, test } from 'node:test'

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

/**
 * Makes the call of a case. `leave`: ends it after so many events, by an abort or by closing the stream. `during`: aborts it in
 * the call of this number, before or after its head.
 */
async function run(context, wire, { leave = Infinity, by, during, part } = {}) {
  const answers = replies(wire)
  const server = await serve(context, ...answers.filter(Boolean))
  const events = []
  const abort = new AbortController()
  const result = { server, events, made: 0, body: '', end: 'closed' }
  const refusing = async (url, init) => {
    const answer = answers.length ? answers.shift() : reply([])
    const isLeft = result.made++ === during
    const response = fetch(answer ? url : url.replace(`:${server.port}`, `:${await closedPort()}`), init)
    if (isLeft && part === 'body') await response
    if (isLeft) abort.abort()
    return response
  }
  const whole = restitch({ fetch: refusing, onEvent: (event) => events.push(event), ...wire.settings })
  const asked = whole(server.url + wire.fact('path'), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: wire.texts('request')[0],
    signal: abort.signal,
  })
  const decoder = new TextDecoder()
  try {
    const response = await asked
    result.status = response.status
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

const received = (wire, body) => {
  if (wire.calls[0].includes('x-ndjson')) return body.trimEnd().split('\n')
  return body
    .replaceAll('\r\n', '\n')
    .split('\n\n')
    .filter((event) => event.includes('data: '))
    .map((event) => event.slice(event.indexOf('data: ') + 6))
}

const STREAMED = CASES.filter(({ calls }) => calls[0].includes('event-stream') && !calls.includes('refused'))
const WHOLE = CASES.filter(({ calls }) => calls[0].includes('application/json') && !calls.includes('refused'))

test('there are enough cases', () => assert.ok(CASES.length >= 60))

// Most of them wait: for a server, or for a time of a case.
describe('cases', { concurrency: 8 }, () => {
  for (const wire of CASES) {
    test(`wire case ${wire.name}`, async (context) => {
      const { server, events, status, body, end } = await run(context, wire)
      // A call whose connection is refused reaches no server.
      const further = wire.calls.slice(1)
      const patterns = wire.texts('asked').filter((_, at) => further[at] !== 'refused')
      const asked = server.requests.slice(1).map((request) => request.body || `${request.method} ${request.path}`)
      assertFits('asked', patterns, asked)
      const given = received(wire, body)
      assertFits('client', wire.texts('client')[0].split('\n'), given.length ? given : [body])
      assert.equal(end, wire.fact('end') ?? 'closed')
      if (given.length === 0) assert.equal(status, Number(wire.fact('status') ?? 200))
      const reports = events.filter(({ event }) => event === 'done')
      assertFits('report', wire.texts('report'), reports.map((report) => JSON.stringify(report)))
      assert.equal(server.replies.length, 0, 'a call was not made')
    })
  }

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
        // A client can have a whole answer before its last event only if all events are of one call: they may arrive together.
        assert.ok(abandoned > 0 || wire.texts('upstream').filter(Boolean).length === 1)
      })
    }
  }

  for (const wire of WHOLE) {
    test(`a client that aborts in any call of ${wire.name} ends the answer`, async (context) => {
      for (let during = 0; during < wire.calls.length; during++) {
        for (const part of ['head', 'body']) {
          const result = await run(context, wire, { during, part })
          assert.equal(result.end, 'aborted')
          // Before the response of the first call there is no answer to report.
          const stops = during === 0 ? [] : ['abandoned']
          const reports = result.events.filter(({ event }) => event === 'done')
          assert.deepEqual(reports.map(({ stop }) => stop), stops)
          await new Promise((resolve) => setTimeout(resolve, 10))
          assert.equal(result.made, during + 1, 'nothing is asked for after the client has left')
        }
      }
    })
  }
})

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
