// The SDKs of providers with the package's `fetch`: cut, dropped and given-up answers.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { restitch } from 'restitch'

import { optional } from './optional.mjs'
import { reply, serve, sse, until } from './server.mjs'
import { CASES } from './wire-cases.mjs'

const JSON_TYPE = 'application/json'
const TEXT = '{"titles": ["One", "Two", "Three"]}'
const CUT = TEXT.slice(0, 24)
const MESSAGES = [{ role: 'user', content: 'Titles, as JSON.' }]
const sevens = (text) => text.match(/.{1,7}/gs)
async function collected(stream) {
  const items = []
  for await (const item of stream) items.push(item)
  return items
}

const no = () => reply(['{"error":{"message":"no","type":"invalid_request_error"}}'], { status: 400, type: JSON_TYPE })

const chunk = (delta, finish = null) => ({
  id: 'a',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta, finish_reason: finish }],
})

function chatStream(text, finish) {
  const events = [chunk({ role: 'assistant', content: '' }), ...sevens(text).map((content) => chunk({ content }))]
  if (finish === undefined) return reply([sse(...events)], { end: 'dropped' })
  return reply([`${sse(...events, chunk({}, finish))}data: [DONE]\n\n`])
}

function chatBody(text, finish) {
  const choices = [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: finish }]
  return reply([JSON.stringify({ id: 'a', object: 'chat.completion', created: 1, model: 'm', choices })], { type: JSON_TYPE })
}

async function openai(context, server, options) {
  const sdk = await optional(context, 'openai')
  return sdk && new sdk.default({ baseURL: `${server.url}/v1`, apiKey: 'key', fetch: restitch(options) })
}

for (const finish of ['length', undefined, 'stop']) {
  test(`openai streams whole text after ${finish ?? 'a lost connection'}`, async (context) => {
    const server = await serve(context, chatStream(CUT, finish), chatStream(TEXT, 'stop'))
    const client = await openai(context, server)
    if (!client) return
    const chunks = await collected(await client.chat.completions.create({ model: 'm', messages: MESSAGES, stream: true }))
    assert.equal(chunks.map(({ choices }) => choices[0].delta.content ?? '').join(''), TEXT)
    assert.deepEqual(chunks.map(({ choices }) => choices[0].finish_reason).filter(Boolean), ['stop'])
  })
}

test('openai reads a whole body', async (context) => {
  const server = await serve(context, chatBody(CUT, 'length'), chatBody(TEXT, 'stop'))
  const client = await openai(context, server)
  if (!client) return
  const [{ message, finish_reason }] = (await client.chat.completions.create({ model: 'm', messages: MESSAGES })).choices
  assert.deepEqual([message.content, finish_reason], [TEXT, 'stop'])
})

test('openai parses a cut answer', async (context) => {
  const server = await serve(context, chatBody(CUT, 'length'), chatBody(TEXT, 'stop'))
  const client = await openai(context, server)
  const zod = await optional(context, 'zod')
  if (!client || !zod) return
  const { zodResponseFormat } = await import('openai/helpers/zod')
  const shape = zod.z.object({ titles: zod.z.array(zod.z.string()) })
  const response_format = zodResponseFormat(shape, 'titles')
  const answer = await client.chat.completions.parse({ model: 'm', messages: MESSAGES, response_format })
  assert.deepEqual(answer.choices[0].message.parsed, JSON.parse(TEXT))
})

for (const stream of [true, false]) {
  for (const onGiveUp of ['leave', 'close', 'error']) {
    test(`openai does not retry ${stream ? 'a stream' : 'a body'} that was given up by ${onGiveUp}`, async (context) => {
      const first = () => (stream ? chatStream(CUT) : chatBody(CUT, 'length'))
      const server = await serve(context, first(), no(), first(), no())
      const client = await openai(context, server, { maxContinuations: 1, onGiveUp })
      if (!client) return
      let error
      try {
        const answer = await client.chat.completions.create({ model: 'm', messages: MESSAGES, stream })
        if (stream) await collected(answer)
      } catch (thrown) {
        error = thrown
      }
      assert.equal(server.requests.length, 2)
      // Without the package, a lost stream is an error, and a cut body is not.
      assert.equal(error !== undefined, onGiveUp === 'error' || (stream && onGiveUp === 'leave'), String(error))
    })
  }
}

test('openai retries before the first byte as without the package', async (context) => {
  const busy = reply(['{}'], { status: 503, type: JSON_TYPE, headers: { 'retry-after-ms': '1' } })
  const server = await serve(context, busy, chatBody(CUT, 'length'), chatBody(TEXT, 'stop'))
  const client = await openai(context, server)
  if (!client) return
  const answer = await client.chat.completions.create({ model: 'm', messages: MESSAGES })
  assert.equal(answer.choices[0].message.content, TEXT)
  const counts = server.requests.map(({ headers }) => headers['x-stainless-retry-count'])
  assert.deepEqual(counts, ['0', '1', '1'])
})

test('openai reports a whole stream, which it leaves with the last event', async (context) => {
  const server = await serve(context, chatStream(TEXT, 'stop'))
  const events = []
  const client = await openai(context, server, { onEvent: (event) => events.push(event) })
  if (!client) return
  await collected(await client.chat.completions.create({ model: 'm', messages: MESSAGES, stream: true }))
  await until(() => events.length === 1)
  assert.deepEqual([events[0].event, events[0].status], ['done', 'passed'])
})

test('openai closes the upstream of a stream that it leaves', async (context) => {
  const server = await serve(context, reply(chatStream(CUT).pieces, { end: 'silent' }))
  const events = []
  const client = await openai(context, server, { onEvent: (event) => events.push(event) })
  if (!client) return
  for await (const { choices } of await client.chat.completions.create({ model: 'm', messages: MESSAGES, stream: true })) {
    if (choices[0].delta.content) break
  }
  await until(() => server.closed === 1)
  assert.deepEqual(events.map(({ stop }) => stop), ['abandoned'])
})

test('openai streams whole responses', async (context) => {
  for (const name of ['responses-stream-text-limit', 'responses-stream-text-drop']) {
    const wire = CASES.find((known) => known.name === name)
    const texts = wire.texts('upstream')
    const replies = wire.calls.map((call, at) => reply(texts[at].split('----\n'), { end: call.split(' ')[2] }))
    const client = await openai(context, await serve(context, ...replies))
    if (!client) return
    const response = await client.responses.stream({ model: 'm', input: 'Count to three.' }).finalResponse()
    assert.deepEqual([response.output_text, response.status], ['[1, 2, 3]', 'completed'])
  }
})

const usage = { input_tokens: 5, output_tokens: 1 }
const started = (id) => ({ id, type: 'message', role: 'assistant', model: 'm', content: [], stop_reason: null, stop_sequence: null, usage })

function messageStream(content_block, deltas, reason, id = 'msg_1') {
  const events = [
    { type: 'message_start', message: started(id) },
    { type: 'content_block_start', index: 0, content_block },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index: 0, delta })),
  ]
  if (reason === undefined) return reply([sse(...events)], { end: 'dropped' })
  const delta = { stop_reason: reason, stop_sequence: null }
  events.push({ type: 'content_block_stop', index: 0 }, { type: 'message_delta', delta, usage: { output_tokens: 9 } })
  return reply([sse(...events, { type: 'message_stop' })])
}

const messageText = (text, reason, id) =>
  messageStream({ type: 'text', text: '' }, sevens(text).map((part) => ({ type: 'text_delta', text: part })), reason, id)

const messageTool = (text, reason) =>
  messageStream(
    { type: 'tool_use', id: 'toolu_1', name: 'save', input: {} },
    sevens(text).map((partial_json) => ({ type: 'input_json_delta', partial_json })),
    reason,
  )

const messageBody = (text, reason) =>
  reply([JSON.stringify({ ...started('msg_1'), content: [{ type: 'text', text }], stop_reason: reason })], { type: JSON_TYPE })

const ASK = { model: 'm', max_tokens: 100, messages: MESSAGES }
const TOOL = { name: 'save', input_schema: { type: 'object', properties: { titles: { type: 'array', items: { type: 'string' } } } } }

for (const door of ['fetch', 'middleware']) {
  const anthropic = async (context, server, options) => {
    const sdk = await optional(context, '@anthropic-ai/sdk')
    const whole = restitch(options)
    return sdk && new sdk.default({ baseURL: server.url, apiKey: 'key', ...(door === 'fetch' ? { fetch: whole } : { middleware: [whole] }) })
  }

  for (const reason of ['max_tokens', undefined]) {
    const after = reason ?? 'a lost connection'
    test(`anthropic streams whole text after ${after}, by ${door}`, async (context) => {
      const server = await serve(context, messageText(CUT, reason), messageText(TEXT, 'end_turn', 'msg_2'))
      const events = []
      const client = await anthropic(context, server, { onEvent: (event) => events.push(event) })
      if (!client) return
      let text = ''
      const stream = client.messages.stream(ASK).on('text', (delta) => (text += delta))
      const final = await stream.finalMessage()
      assert.equal(text, TEXT)
      assert.equal(final.content[0].text, TEXT)
      assert.deepEqual([final.id, final.stop_reason, events.at(-1).status], ['msg_1', 'end_turn', 'complete'])
    })

    test(`anthropic streams a whole tool call after ${after}, by ${door}`, async (context) => {
      const server = await serve(context, messageTool(CUT, reason), messageText(TEXT, 'end_turn', 'msg_2'))
      const client = await anthropic(context, server)
      if (!client) return
      const final = await client.messages.stream({ ...ASK, tools: [TOOL] }).finalMessage()
      assert.deepEqual(final.content.map(({ type, input }) => [type, input]), [['tool_use', JSON.parse(TEXT)]])
      assert.equal(final.stop_reason, 'tool_use')
    })
  }

  test(`anthropic reads a whole body, by ${door}`, async (context) => {
    const server = await serve(context, messageBody(CUT, 'max_tokens'), messageBody(TEXT, 'end_turn'))
    const client = await anthropic(context, server)
    if (!client) return
    const message = await client.messages.create(ASK)
    assert.deepEqual([message.content[0].text, message.stop_reason], [TEXT, 'end_turn'])
    const [first, second] = server.requests.map(({ headers }) => headers['x-api-key'] ?? headers.authorization)
    assert.match(first, /key/)
    assert.equal(second, first)
  })

  test(`an error of anthropic's first call is the SDK's, by ${door}`, async (context) => {
    const sdk = await optional(context, '@anthropic-ai/sdk')
    if (!sdk) return
    const client = await anthropic(context, await serve(context, no()))
    await assert.rejects(client.messages.create(ASK), sdk.BadRequestError)
  })

  test(`anthropic does not retry what was given up, by ${door}`, async (context) => {
    const server = await serve(context, messageBody(CUT, 'max_tokens'), no(), messageBody(CUT, 'max_tokens'), no())
    const client = await anthropic(context, server, { maxContinuations: 1, onGiveUp: 'error' })
    if (!client) return
    await assert.rejects(client.messages.create(ASK))
    assert.equal(server.requests.length, 2)
  })
}

const gemini = (text, finishReason) => ({
  candidates: [{ content: { parts: [{ text }], role: 'model' }, index: 0, ...(finishReason && { finishReason }) }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 5, totalTokenCount: 6 },
  responseId: 'r',
  modelVersion: 'm',
})

function geminiStream(text, finish) {
  const events = sevens(text).map((part) => gemini(part))
  return finish ? reply([sse(...events, gemini('', finish))]) : reply([sse(...events)], { end: 'dropped' })
}

const geminiBody = (text, finish) => reply([JSON.stringify(gemini(text, finish))], { type: JSON_TYPE })

test('google genai streams and reads whole text', async (context) => {
  const sdk = await optional(context, '@google/genai')
  if (!sdk) return
  const streams = ['MAX_TOKENS', undefined].flatMap((finish) => [geminiStream(CUT, finish), geminiStream(TEXT, 'STOP')])
  const server = await serve(context, ...streams, geminiBody(CUT, 'MAX_TOKENS'), geminiBody(TEXT, 'STOP'))
  const client = new sdk.GoogleGenAI({ apiKey: 'key', httpOptions: { baseUrl: server.url, fetch: restitch() } })
  const ask = { model: 'm', contents: 'Titles' }
  for (let round = 0; round < 2; round++) {
    const chunks = await collected(await client.models.generateContentStream(ask))
    assert.equal(chunks.map(({ text }) => text ?? '').join(''), TEXT)
    assert.equal(chunks.at(-1).candidates[0].finishReason, 'STOP')
  }
  assert.equal((await client.models.generateContent(ask)).text, TEXT)
})
