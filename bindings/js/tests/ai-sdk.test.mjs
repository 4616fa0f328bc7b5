// The AI SDK with the package's middleware: text, objects and tool calls, streamed and whole.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { restitch, restitchMiddleware } from 'restitch'

import { optional } from './optional.mjs'
import { reply, serve, sse, until } from './server.mjs'

const TEXT = '{"titles": ["One", "Two", "Three"]}'
const CUT = TEXT.slice(0, 24)
const VALUE = JSON.parse(TEXT)
const PROMPT = 'Titles, as JSON.'

const usage = { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 }
const chunk = (delta, finish = null, more = {}) => ({
  id: 'a',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta, finish_reason: finish }],
  ...more,
})
const sevens = (text) => text.match(/.{1,7}/gs)

function stream(deltas, finish) {
  const events = [chunk({ role: 'assistant', content: '' }), ...deltas.map((delta) => chunk(delta))]
  if (finish === undefined) return reply([sse(...events)], { end: 'dropped' })
  return reply([`${sse(...events, chunk({}, finish, { usage }))}data: [DONE]\n\n`])
}

const text = (whole, finish) => stream(sevens(whole).map((content) => ({ content })), finish)

const tool = (whole, finish) =>
  stream(
    sevens(whole).map((part, at) => {
      const begin = at === 0 ? { id: 'call_1', type: 'function' } : {}
      return { tool_calls: [{ index: 0, ...begin, function: { ...(at === 0 ? { name: 'save' } : {}), arguments: part } }] }
    }),
    finish,
  )

const body = (content, finish) =>
  reply([JSON.stringify({ id: 'a', object: 'chat.completion', created: 1, model: 'm', choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: finish }], usage })], {
    type: 'application/json',
  })

/** Returns the AI SDK and a model behind a server, with one of the two doors. */
async function sdk(context, door, replies, options) {
  const ai = await optional(context, 'ai')
  const provider = await optional(context, '@ai-sdk/openai-compatible')
  const zod = await optional(context, 'zod')
  if (!ai || !provider || !zod) return undefined
  const server = await serve(context, ...replies)
  const own = door === 'fetch' ? { fetch: restitch(options) } : {}
  const made = provider.createOpenAICompatible({ name: 'own', baseURL: `${server.url}/v1`, apiKey: 'key', supportsStructuredOutputs: true, ...own })
  const model = made('m')
  const schema = zod.z.object({ titles: zod.z.array(zod.z.string()) })
  const whole = door === 'fetch' ? model : ai.wrapLanguageModel({ model, middleware: restitchMiddleware(options) })
  return { ai, server, schema, model: whole }
}

for (const door of ['middleware', 'fetch']) {
  for (const finish of ['length', undefined, 'stop']) {
    const after = finish ?? 'a lost connection'
    test(`streamText is whole after ${after}, by ${door}`, async (context) => {
      const events = []
      const made = await sdk(context, door, [text(CUT, finish), text(TEXT, 'stop')], { onEvent: (event) => events.push(event) })
      if (!made) return
      const result = made.ai.streamText({ model: made.model, prompt: PROMPT })
      const types = []
      for await (const { type } of result.fullStream) if (type !== 'text-delta') types.push(type)
      assert.equal(await result.text, TEXT)
      assert.equal(await result.finishReason, 'stop')
      assert.deepEqual(types, ['start', 'start-step', 'text-start', 'text-end', 'finish-step', 'finish'])
      assert.equal(events.at(-1).status, 'complete')
      assert.equal(made.server.requests.length, 2)
    })

    test(`streamObject is whole after ${after}, by ${door}`, async (context) => {
      const made = await sdk(context, door, [text(CUT, finish), text(TEXT, 'stop')])
      if (!made) return
      const result = made.ai.streamObject({ model: made.model, schema: made.schema, prompt: PROMPT })
      for await (const value of result.partialObjectStream) assert.ok(value)
      assert.deepEqual(await result.object, VALUE)
    })

    test(`a streamed tool call is whole after ${after}, by ${door}`, async (context) => {
      const made = await sdk(context, door, [tool(CUT, finish === 'stop' ? 'tool_calls' : finish), text(TEXT, 'stop')])
      if (!made) return
      const saved = []
      const save = made.ai.tool({ inputSchema: made.schema, execute: (input) => saved.push(input) })
      const result = made.ai.streamText({ model: made.model, prompt: PROMPT, tools: { save } })
      const types = new Set()
      for await (const { type } of result.fullStream) types.add(type)
      assert.deepEqual(saved, [VALUE])
      assert.equal(await result.finishReason, 'tool-calls')
      assert.ok(!types.has('error'))
    })
  }

  test(`generateObject is whole, by ${door}`, async (context) => {
    const made = await sdk(context, door, [body(CUT, 'length'), body(TEXT, 'stop')])
    if (!made) return
    const { object, finishReason } = await made.ai.generateObject({ model: made.model, schema: made.schema, prompt: PROMPT })
    assert.deepEqual([object, finishReason], [VALUE, 'stop'])
    const [first, second] = made.server.requests.map((request) => JSON.parse(request.body))
    assert.equal(first.response_format.type, 'json_schema')
    assert.equal(second.messages.length, first.messages.length + 2)
  })

  test(`a tool call that is given up is not made, by ${door}`, async (context) => {
    const no = reply(['{"error":{"message":"no"}}'], { status: 400, type: 'application/json' })
    const made = await sdk(context, door, [tool(CUT, 'length'), no], { maxContinuations: 1 })
    if (!made) return
    const saved = []
    const save = made.ai.tool({ inputSchema: made.schema, execute: (input) => saved.push(input) })
    const result = made.ai.streamText({ model: made.model, prompt: PROMPT, tools: { save }, onError() {} })
    for await (const part of result.fullStream) assert.ok(part)
    assert.deepEqual(saved, [])
    assert.equal(await result.finishReason, 'length')
  })
}

test('usage of the middleware is that of all calls', async (context) => {
  const made = await sdk(context, 'middleware', [text(CUT, 'length'), text(TEXT, 'stop')])
  if (!made) return
  const result = made.ai.streamText({ model: made.model, prompt: PROMPT })
  await result.consumeStream()
  const { inputTokens, outputTokens } = await result.usage
  assert.deepEqual([inputTokens, outputTokens], [10, 14])
})

test('an answer in prose passes the middleware unchanged', async (context) => {
  const made = await sdk(context, 'middleware', [text('Once upon a time', 'stop')])
  if (!made) return
  const result = made.ai.streamText({ model: made.model, prompt: PROMPT })
  assert.equal(await result.text, 'Once upon a time')
})

test('leaving a stream of the middleware closes the upstream', async (context) => {
  const events = []
  const open = (part) => reply(text(part).pieces, { end: 'silent' })
  const made = await sdk(context, 'middleware', [open(CUT), text(CUT), open(TEXT.slice(0, 30))], { onEvent: (event) => events.push(event) })
  if (!made) return
  for (const leaves of [1, 2]) {
    const abort = new AbortController()
    const result = made.ai.streamText({ model: made.model, prompt: PROMPT, abortSignal: abort.signal, onError() {} })
    for await (const { type } of result.fullStream) {
      // The second answer is left while its rest is read.
      if (type === 'text-delta' && made.server.requests.length === 2 * leaves - 1) abort.abort()
    }
    await until(() => made.server.closed >= leaves)
    assert.equal(events.at(-1).stop, 'abandoned')
  }
})

test('a refusal of a further call is read by its status', async (context) => {
  const no = reply(['{"error":{"message":"no"}}'], { status: 400, type: 'application/json' })
  const events = []
  const made = await sdk(context, 'middleware', [text(CUT, 'length'), no], { maxContinuations: 1, onEvent: (event) => events.push(event) })
  if (!made) return
  const result = made.ai.streamText({ model: made.model, prompt: PROMPT, onError() {} })
  assert.equal(await result.text, CUT)
  assert.equal(await result.finishReason, 'length')
  assert.equal(events.at(-1).status, 'incomplete')
  assert.equal(made.server.requests.length, 2)
})

/** Returns the AI SDK and a wrapped model without HTTP, which answers each call with the next parts, or fails with an error. */
async function local(context, answers, options) {
  const ai = await optional(context, 'ai')
  const mocks = await optional(context, 'ai/test')
  const zod = await optional(context, 'zod')
  if (!ai || !mocks || !zod) return undefined
  const calls = []
  const next = (params) => {
    calls.push(params)
    const parts = answers.shift()
    if (parts instanceof Error) throw parts
    return parts
  }
  const model = new (mocks.MockLanguageModelV4 ?? mocks.MockLanguageModelV3)({
    doStream: async (params) => ({ stream: mocks.convertArrayToReadableStream(next(params)) }),
    doGenerate: async (params) => {
      const parts = next(params)
      const content = parts.filter(({ type }) => type === 'tool-call')
      const text = parts.map(({ type, delta }) => (type === 'text-delta' ? delta : '')).join('')
      if (text) content.push({ type: 'text', text })
      return { content, warnings: [], ...parts.at(-1) }
    },
  })
  const schema = zod.z.object({ titles: zod.z.array(zod.z.string()) })
  return { ai, calls, schema, model: ai.wrapLanguageModel({ model, middleware: restitchMiddleware(options) }) }
}

const usageOf = { inputTokens: { total: 5 }, outputTokens: { total: 7 } }
const partsOf = (begin, deltas, end, finish) => [
  { type: 'stream-start', warnings: [] },
  begin,
  ...deltas,
  ...(finish ? end : []),
  finish
    ? { type: 'finish', finishReason: { unified: finish, raw: finish }, usage: usageOf }
    : { type: 'error', error: new Error('the model has crashed') },
]

const textParts = (whole, finish) => {
  const deltas = sevens(whole).map((delta) => ({ type: 'text-delta', id: 't', delta }))
  return partsOf({ type: 'text-start', id: 't' }, deltas, [{ type: 'text-end', id: 't' }], finish)
}

const toolParts = (whole, finish) => {
  const deltas = sevens(whole).map((delta) => ({ type: 'tool-input-delta', id: 'c', delta }))
  const call = { type: 'tool-call', toolCallId: 'c', toolName: 'save', input: whole }
  const end = [{ type: 'tool-input-end', id: 'c' }, call]
  return partsOf({ type: 'tool-input-start', id: 'c', toolName: 'save' }, deltas, end, finish)
}

const refusal = () => Object.assign(new Error('no'), { statusCode: 400 })

for (const finish of ['length', undefined]) {
  const after = finish ?? 'an error'
  test(`a model without HTTP streams whole text after ${after}`, async (context) => {
    const made = await local(context, [textParts(CUT, finish), textParts(TEXT, 'stop')])
    if (!made) return
    const result = made.ai.streamText({ model: made.model, prompt: PROMPT })
    assert.equal(await result.text, TEXT)
    assert.equal(await result.finishReason, 'stop')
    assert.equal(made.calls.length, 2)
    // The rest is asked for in the conversation of the first call.
    assert.deepEqual(made.calls[1].prompt.map(({ role }) => role), ['user', 'assistant', 'user'])
  })

  test(`a model without HTTP streams a whole tool call after ${after}`, async (context) => {
    const made = await local(context, [toolParts(CUT, finish), textParts(TEXT, 'stop')])
    if (!made) return
    const saved = []
    const save = made.ai.tool({ inputSchema: made.schema, execute: (input) => saved.push(input) })
    await made.ai.streamText({ model: made.model, prompt: PROMPT, tools: { save } }).consumeStream()
    assert.deepEqual(saved, [VALUE])
  })
}

test('a model without HTTP generates whole text, objects and tool calls', async (context) => {
  const [cut, rest] = [textParts(CUT, 'length'), textParts(TEXT, 'stop')]
  const made = await local(context, [cut, rest, cut, rest, toolParts(CUT, 'length'), rest])
  if (!made) return
  const ask = { model: made.model, prompt: PROMPT }
  assert.equal((await made.ai.generateText(ask)).text, TEXT)
  assert.deepEqual((await made.ai.generateObject({ ...ask, schema: made.schema })).object, VALUE)
  const save = made.ai.tool({ inputSchema: made.schema })
  const { toolCalls, finishReason } = await made.ai.generateText({ ...ask, tools: { save } })
  assert.deepEqual([toolCalls.map(({ input }) => input), finishReason], [[VALUE], 'tool-calls'])
})

test('a model without HTTP is given up', async (context) => {
  const options = { maxContinuations: 1 }
  const made = await local(context, [textParts(CUT, 'length'), refusal(), toolParts(CUT, 'length'), refusal()], options)
  if (!made) return
  const result = made.ai.streamText({ model: made.model, prompt: PROMPT })
  assert.deepEqual([await result.text, await result.finishReason], [CUT, 'length'])
  const saved = []
  const save = made.ai.tool({ inputSchema: made.schema, execute: (input) => saved.push(input) })
  const given = made.ai.streamText({ model: made.model, prompt: PROMPT, tools: { save }, onError() {} })
  await given.consumeStream()
  assert.deepEqual([saved, await given.finishReason], [[], 'length'])
})

test('calls of the provider and raw input pass beside a call that is made whole', async (context) => {
  const passing = (id, more) => [
    { type: 'tool-input-start', id, toolName: id, ...more },
    { type: 'tool-input-delta', id, delta: `of ${id}` },
    { type: 'tool-input-end', id },
    { type: 'tool-call', toolCallId: id, toolName: id, input: JSON.stringify(`of ${id}`), ...more },
  ]
  const [start, ...call] = toolParts(CUT, 'length')
  const first = [start, ...passing('search', { providerExecuted: true }), ...passing('patch', { inputEncoding: 'text' }), ...call]
  const made = await local(context, [first, textParts(TEXT, 'stop')])
  if (!made) return
  const { stream } = await made.model.doStream({ prompt: [{ role: 'user', content: [{ type: 'text', text: PROMPT }] }] })
  const inputs = {}
  const calls = {}
  for await (const { type, id, delta, toolCallId, input } of stream) {
    if (type === 'tool-input-delta') inputs[id] = (inputs[id] ?? '') + delta
    if (type === 'tool-call') calls[toolCallId] = input
  }
  assert.deepEqual(inputs, { search: 'of search', patch: 'of patch', c: TEXT })
  assert.deepEqual(calls, { search: '"of search"', patch: '"of patch"', c: TEXT })
})
