// The SDKs against `restitch sim`, the scripted model server, as a new user would try them: each way to ask has a cut, a
// dropped, and a given-up answer.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'

import { restitch, restitchMiddleware } from 'restitch'

import { optional } from './optional.mjs'

const PROGRAM = process.env.RESTITCH_PROGRAM
const NOTES = {
  title: 'Notes on tides',
  sections: Array.from({ length: 12 }, (_, at) => ({ heading: `"Spring" tides, part ${at}`, page: 7 * at })),
  done: true,
}
const DOCUMENT = JSON.stringify(NOTES, null, 2)
const zod = await import('zod').catch(() => undefined)
const Notes = zod?.z.object({
  title: zod.z.string(),
  sections: zod.z.array(zod.z.object({ heading: zod.z.string(), page: zod.z.number().int() })),
  done: zod.z.boolean(),
})
const SCHEMA = zod?.z.toJSONSchema(Notes)

// A first answer of `answer` is text, and one of `tool` the arguments of a call. What follows a bar answers calls for the rest.
// A body that is dropped is asked for again.
const SCRIPTS = {
  cut: (first) => `${first}@200!length | refusal anchor@150!stop fence`,
  dropped: (first) => `${first}@200!drop ${first} | anchor`,
  'given up': (first) => `${first}@200!length | 400`,
}

let sim, url
before(async () => {
  if (!PROGRAM) return
  sim = spawn(PROGRAM, ['sim', '--listen', '127.0.0.1:0', '--document', '-'], { stdio: ['pipe', 'ignore', 'pipe'] })
  sim.stdin.end(DOCUMENT)
  const [line] = await once(createInterface({ input: sim.stderr }), 'line', { signal: AbortSignal.timeout(10_000) })
  url = line.match(/http:\/\/[0-9.]+:[0-9]+/)[0]
})
after(() => sim?.kill())

const missing = !PROGRAM ? 'RESTITCH_PROGRAM does not name the program `restitch`' : !zod ? 'zod is not installed' : undefined
if (missing) test('the SDKs against `restitch sim`', { skip: missing }, () => {})

/**
 * Tests a way to ask. `ask` gets the modules of the packages, a prompt and the options of restitch, and returns
 * `{ value, finish }`. `whole` is the finish of a whole answer, and `limit` that of one that was given up, or the error's class.
 */
function way(name, packages, { first = 'answer', whole, limit, passes = false }, ask) {
  if (missing) return
  for (const [kind, script] of Object.entries(SCRIPTS)) {
    test(`${name}: ${kind}`, async (context) => {
      const modules = {}
      for (const needed of packages) {
        modules[needed] = await optional(context, needed)
        if (!modules[needed]) return
      }
      const reports = []
      const onEvent = (event) => event.event === 'done' && reports.push(event)
      const options = { onEvent, ...(kind === 'given up' && { maxContinuations: 1 }) }
      let answer
      try {
        // The name makes it a conversation of its own, in which this is the first call.
        answer = await ask(modules, `Notes on tides, for ${name} [[script: ${script(first)}]]`, options)
      } catch (error) {
        answer = { finish: error.constructor.name, error }
      }
      assert.equal(reports.length, 1)
      if (kind === 'given up' || (passes && kind === 'cut')) {
        assert.equal(answer.finish, limit, answer.error?.stack)
        assert.equal(reports[0].status, passes ? 'passed' : 'incomplete')
        return
      }
      if (answer.error) throw answer.error
      assert.deepEqual(answer, { value: NOTES, finish: whole })
      const { status, continuations, failures } = reports[0]
      if (kind === 'cut') assert.deepEqual([status, continuations, failures], ['complete', 3, 1])
      // A body is asked for again, and passes then.
      else assert.deepEqual([status, continuations], [failures === 1 ? 'passed' : 'complete', 1])
    })
  }
}

const collect = async (stream) => {
  const items = []
  for await (const item of stream) items.push(item)
  return items
}
const parsed = (text, finish) => {
  let value
  try {
    value = JSON.parse(text)
  } catch {
    value = text
  }
  return { value, finish }
}

// openai

const openai = (modules, options) =>
  new modules.openai.default({ baseURL: `${url}/v1`, apiKey: 'key', fetch: restitch(options) })
const chat = (prompt, more) => ({ model: 'sim', messages: [{ role: 'user', content: prompt }], ...more })
const { zodResponseFormat, zodTextFormat } = (await import('openai/helpers/zod').catch(() => undefined)) ?? {}
const chatTools = [{ type: 'function', function: { name: 'save', parameters: SCHEMA, strict: true } }]
const stopOrLength = { whole: 'stop', limit: 'length' }
const chatCall = { first: 'tool', whole: 'tool_calls', limit: 'length' }

way('openai, chat, create', ['openai'], stopOrLength, async (modules, prompt, options) => {
  const { choices } = await openai(modules, options).chat.completions.create(chat(prompt))
  return parsed(choices[0].message.content, choices[0].finish_reason)
})
way('openai, chat, create with a tool', ['openai'], chatCall, async (modules, prompt, options) => {
  const { choices } = await openai(modules, options).chat.completions.create(chat(prompt, { tools: chatTools }))
  return parsed(choices[0].message.tool_calls[0].function.arguments, choices[0].finish_reason)
})
way('openai, chat, create, streamed', ['openai'], stopOrLength, async (modules, prompt, options) => {
  const stream = await openai(modules, options).chat.completions.create(chat(prompt, { stream: true }))
  const choices = (await collect(stream)).flatMap(({ choices }) => choices)
  const text = choices.map(({ delta }) => delta.content ?? '').join('')
  return parsed(text, choices.map(({ finish_reason }) => finish_reason).filter(Boolean).join())
})
way('openai, chat, stream', ['openai'], { whole: 'stop', limit: 'LengthFinishReasonError' }, async (modules, prompt, options) => {
  const response_format = zodResponseFormat(Notes, 'notes')
  const stream = openai(modules, options).chat.completions.stream(chat(prompt, { response_format }))
  const { message, finish_reason } = (await stream.finalChatCompletion()).choices[0]
  return { value: message.parsed, finish: finish_reason }
})
const raisedCall = { ...chatCall, limit: 'LengthFinishReasonError' }
way('openai, chat, stream with a tool', ['openai'], raisedCall, async (modules, prompt, options) => {
  const stream = openai(modules, options).chat.completions.stream(chat(prompt, { tools: chatTools }))
  const { message, finish_reason } = (await stream.finalChatCompletion()).choices[0]
  return { value: message.tool_calls[0].function.parsed_arguments, finish: finish_reason }
})
way('openai, chat, parse', ['openai'], { whole: 'stop', limit: 'LengthFinishReasonError' }, async (modules, prompt, options) => {
  const response_format = zodResponseFormat(Notes, 'notes')
  const { choices } = await openai(modules, options).chat.completions.parse(chat(prompt, { response_format }))
  return { value: choices[0].message.parsed, finish: choices[0].finish_reason }
})

const responsesTools = [{ type: 'function', name: 'save', parameters: SCHEMA, strict: true }]
const completed = { whole: 'completed', limit: 'incomplete' }
const responsesCall = ({ output, status }) => parsed(output.find(({ type }) => type === 'function_call').arguments, status)

way('openai, responses, create', ['openai'], completed, async (modules, prompt, options) => {
  const { output_text, status } = await openai(modules, options).responses.create({ model: 'sim', input: prompt })
  return parsed(output_text, status)
})
way('openai, responses, create with a tool', ['openai'], { ...completed, first: 'tool' }, async (modules, prompt, options) =>
  responsesCall(await openai(modules, options).responses.create({ model: 'sim', input: prompt, tools: responsesTools })),
)
way('openai, responses, create, streamed', ['openai'], completed, async (modules, prompt, options) => {
  const events = await collect(await openai(modules, options).responses.create({ model: 'sim', input: prompt, stream: true }))
  const deltas = events.filter(({ type }) => type === 'response.output_text.delta')
  return parsed(deltas.map(({ delta }) => delta).join(''), events.at(-1).response.status)
})
way('openai, responses, stream', ['openai'], completed, async (modules, prompt, options) => {
  const stream = openai(modules, options).responses.stream({ model: 'sim', input: prompt })
  const { output_text, status } = await stream.finalResponse()
  return parsed(output_text, status)
})
way('openai, responses, stream with a tool', ['openai'], { ...completed, first: 'tool' }, async (modules, prompt, options) => {
  const stream = openai(modules, options).responses.stream({ model: 'sim', input: prompt, tools: responsesTools })
  return responsesCall(await stream.finalResponse())
})
way('openai, responses, parse', ['openai'], completed, async (modules, prompt, options) => {
  const text = { format: zodTextFormat(Notes, 'notes') }
  const { output_parsed, status } = await openai(modules, options).responses.parse({ model: 'sim', input: prompt, text })
  return { value: output_parsed, finish: status }
})

// @anthropic-ai/sdk

const ANTHROPIC = '@anthropic-ai/sdk'
const message = (prompt, more) => ({ model: 'sim', max_tokens: 4000, messages: [{ role: 'user', content: prompt }], ...more })
const messageTools = [{ name: 'save', input_schema: SCHEMA }]
const messageText = ({ content, stop_reason }) => parsed(content.map(({ text }) => text ?? '').join(''), stop_reason)
const messageCall = ({ content, stop_reason }) => {
  const { input } = content.find(({ type }) => type === 'tool_use')
  return { value: input, finish: stop_reason }
}
const endOrLimit = { whole: 'end_turn', limit: 'max_tokens' }
const toolOrLimit = { first: 'tool', whole: 'tool_use', limit: 'max_tokens' }

for (const door of ['fetch', 'middleware']) {
  const anthropic = (modules, options) => {
    const whole = restitch(options)
    const own = door === 'fetch' ? { fetch: whole } : { middleware: [whole] }
    return new modules[ANTHROPIC].default({ baseURL: url, apiKey: 'key', ...own })
  }
  way(`anthropic, create, by ${door}`, [ANTHROPIC], endOrLimit, async (modules, prompt, options) =>
    messageText(await anthropic(modules, options).messages.create(message(prompt))),
  )
  // The model server leaves the arguments of a cut call empty in a body, as an object can't be cut.
  const passing = { ...toolOrLimit, passes: true }
  way(`anthropic, create with a tool, by ${door}`, [ANTHROPIC], passing, async (modules, prompt, options) =>
    messageCall(await anthropic(modules, options).messages.create(message(prompt, { tools: messageTools }))),
  )
  way(`anthropic, stream, by ${door}`, [ANTHROPIC], endOrLimit, async (modules, prompt, options) =>
    messageText(await anthropic(modules, options).messages.stream(message(prompt)).finalMessage()),
  )
  way(`anthropic, stream with a tool, by ${door}`, [ANTHROPIC], toolOrLimit, async (modules, prompt, options) =>
    messageCall(await anthropic(modules, options).messages.stream(message(prompt, { tools: messageTools })).finalMessage()),
  )
}

// @google/genai

const GENAI = '@google/genai'
const genai = (modules, options) =>
  new modules[GENAI].GoogleGenAI({ apiKey: 'key', httpOptions: { baseUrl: url, fetch: restitch(options) } }).models
const geminiFinish = { whole: 'STOP', limit: 'MAX_TOKENS' }

way('google genai, generateContent', [GENAI], geminiFinish, async (modules, prompt, options) => {
  const response = await genai(modules, options).generateContent({ model: 'sim', contents: prompt })
  return parsed(response.text, response.candidates[0].finishReason)
})
way('google genai, generateContentStream', [GENAI], geminiFinish, async (modules, prompt, options) => {
  const chunks = await collect(await genai(modules, options).generateContentStream({ model: 'sim', contents: prompt }))
  return parsed(chunks.map(({ text }) => text ?? '').join(''), chunks.at(-1).candidates[0].finishReason)
})

// The AI SDK

const PROVIDERS = {
  chat: ['@ai-sdk/openai', (sdk, settings) => sdk.createOpenAI(settings).chat('sim')],
  responses: ['@ai-sdk/openai', (sdk, settings) => sdk.createOpenAI(settings).responses('sim')],
  messages: ['@ai-sdk/anthropic', (sdk, settings) => sdk.createAnthropic(settings)('sim')],
}
globalThis.AI_SDK_LOG_WARNINGS = false

for (const [api, [provider, make]] of Object.entries(PROVIDERS)) {
  for (const door of ['fetch', 'middleware']) {
    const asked = (modules, options) => {
      const own = door === 'fetch' ? { fetch: restitch(options) } : {}
      const model = make(modules[provider], { baseURL: `${url}/v1`, apiKey: 'key', ...own })
      const whole = door === 'fetch' ? model : modules.ai.wrapLanguageModel({ model, middleware: restitchMiddleware(options) })
      return { model: whole, maxRetries: 0 }
    }
    const ai = (name, ends, ask) =>
      way(`ai ${name}, ${api}, by ${door}`, ['ai', provider], ends, (modules, prompt, options) =>
        ask(modules.ai, { ...asked(modules, options), prompt }),
      )
    const call = (toolCalls, finish) => ({ value: toolCalls.find(({ invalid }) => !invalid)?.input, finish })

    // The provider asks for an object by a tool.
    const passes = api === 'messages'
    ai('generateObject', { whole: 'stop', limit: 'NoObjectGeneratedError', passes }, async ({ generateObject }, ask) => {
      const { object, finishReason } = await generateObject({ ...ask, schema: Notes })
      return { value: object, finish: finishReason }
    })
    ai('streamObject', { whole: 'stop', limit: 'NoObjectGeneratedError' }, async ({ streamObject }, ask) => {
      const result = streamObject({ ...ask, schema: Notes, onError() {} })
      const object = result.object
      object.catch(() => {})
      await collect(result.partialObjectStream)
      return { value: await object, finish: await result.finishReason }
    })
    ai('generateText', { whole: 'stop', limit: 'length' }, async ({ generateText }, ask) => {
      const { text, finishReason } = await generateText(ask)
      return parsed(text, finishReason)
    })
    ai('streamText', { whole: 'stop', limit: 'length' }, async ({ streamText }, ask) => {
      const result = streamText({ ...ask, onError() {} })
      return parsed((await collect(result.textStream)).join(''), await result.finishReason)
    })
    const made = { first: 'tool', whole: 'tool-calls', limit: 'length' }
    ai('generateText with a tool', { ...made, passes }, async ({ generateText, tool }, ask) => {
      const { toolCalls, finishReason } = await generateText({ ...ask, tools: { save: tool({ inputSchema: Notes }) } })
      return call(toolCalls, finishReason)
    })
    ai('streamText with a tool', made, async ({ streamText, tool }, ask) => {
      const result = streamText({ ...ask, tools: { save: tool({ inputSchema: Notes }) }, onError() {} })
      await result.consumeStream()
      return call(await result.toolCalls, await result.finishReason)
    })
  }
}
