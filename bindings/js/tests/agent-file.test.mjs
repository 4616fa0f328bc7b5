// A large file in one tool call, through five cuts of different kinds, read by Anthropic's SDK if it is installed.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { restitch } from 'restitch'

import { optional } from './optional.mjs'
import { reply, serve, sse } from './server.mjs'

const THINKING = { type: 'thinking', thinking: 'A parser, then its tests.', signature: 'c2lnbmF0dXJl' }
const TOOL = {
  name: 'write_file',
  input_schema: {
    type: 'object',
    properties: { path: { type: 'string' }, content: { type: 'string' } },
    required: ['path', 'content'],
  },
}

/** Returns code of about this size, in which lines look alike. */
function source(size) {
  let text = 'def parse(token, state):\n'
  for (let seed = 7; text.length < size; ) {
    seed = (seed * 1103515245 + 12345) % 2 ** 31
    const number = seed % 1e6
    text += `    if token == "${number.toString(16)}" and state[${number % 97}] != '\\\\n':\n`
    text += `        return ${number / 7}  # \u2192 ${number}\n`
  }
  return text
}

const deltas = (text) => Array.from({ length: Math.ceil(text.length / 997) }, (_, at) => text.slice(at * 997, (at + 1) * 997))

function start(number) {
  const usage = { input_tokens: 50, output_tokens: 1 }
  const message = { id: `msg_${number}`, type: 'message', role: 'assistant', model: 'm', content: [] }
  return { type: 'message_start', message: { ...message, stop_reason: null, stop_sequence: null, usage } }
}

const block = (index, content, parts) => [
  { type: 'content_block_start', index, content_block: content },
  ...parts.map((delta) => ({ type: 'content_block_delta', index, delta })),
]

const end = (index, reason) => [
  { type: 'content_block_stop', index },
  { type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: 100 } },
  { type: 'message_stop' },
]

const ENDS = ['limit', 'silent', 'reset', 'error', 'stop', 'whole']

/** Returns the answer to a call: a part of the text, and how it ends. */
function answer(number, text, cuts, received) {
  const kind = ENDS[number]
  let events
  let index = 0
  if (number === 0) {
    index = 1
    const thinking = [
      { type: 'thinking_delta', thinking: THINKING.thinking },
      { type: 'signature_delta', signature: THINKING.signature },
    ]
    const call = { type: 'tool_use', id: 'toolu_1', name: 'write_file', input: {} }
    const parts = deltas(text.slice(0, cuts[0])).map((partial_json) => ({ type: 'input_json_delta', partial_json }))
    events = [
      start(0),
      ...block(0, { type: 'thinking', thinking: '', signature: '' }, thinking),
      { type: 'content_block_stop', index: 0 },
      ...block(1, call, parts),
    ]
  } else {
    // The model copies the text that it is asked to repeat, and goes on.
    const prompt = JSON.parse(received.body).messages.at(-1).content
    const [, anchor] = /<overlap_context>\n(.*)\n<\/overlap_context>/s.exec(prompt)
    const at = text.lastIndexOf(anchor, cuts[number - 1] - anchor.length)
    assert.ok(at >= 0)
    const parts = deltas(text.slice(at, cuts[number])).map((part) => ({ type: 'text_delta', text: part }))
    events = [start(number), ...block(0, { type: 'text', text: '' }, parts)]
  }
  if (kind === 'limit') events.push(...end(index, 'max_tokens'))
  if (kind === 'stop' || kind === 'whole') events.push(...end(index, 'end_turn'))
  if (kind === 'error') events.push({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } })
  return reply([sse(...events)], { end: { silent: 'silent', reset: 'dropped' }[kind] ?? 'closed' })
}

test('a large file is identical after five cuts', async (context) => {
  const sdk = await optional(context, '@anthropic-ai/sdk')
  if (!sdk) return
  const input = { path: 'src/parser.py', content: source(200 << 10) }
  const text = JSON.stringify(input)
  const cuts = ENDS.map((_, number) => (number === 5 ? text.length : Math.trunc((text.length * (number + 1)) / 6)))
  let calls = 0
  const server = await serve(context, ...ENDS.map(() => (received) => answer(calls++, text, cuts, received)))
  const events = []
  const client = new sdk.default({
    baseURL: server.url,
    apiKey: 'key',
    fetch: restitch({ idleTimeout: 500, onEvent: (event) => events.push(event) }),
  })
  const ask = { model: 'm', max_tokens: 64_000, messages: [{ role: 'user', content: 'Write the parser.' }], tools: [TOOL] }
  const message = await client.messages.stream(ask).finalMessage()
  assert.deepEqual(message.content.map(({ type }) => type), ['thinking', 'tool_use'])
  const [thinking, call] = message.content
  assert.deepEqual([thinking.thinking, thinking.signature], [THINKING.thinking, THINKING.signature])
  assert.deepEqual([call.id, call.name, message.stop_reason], ['toolu_1', 'write_file', 'tool_use'])
  assert.deepEqual(call.input, input)
  const { status, continuations, failures } = events.at(-1)
  assert.deepEqual({ status, continuations, failures }, { status: 'complete', continuations: 5, failures: 0 })
  const causes = events.filter(({ event }) => event === 'cut').map(({ cause }) => cause)
  assert.deepEqual(causes, ['length', 'idle', 'drop', 'in_band', 'premature_stop'])
})
