'use strict'

const { Answer } = require('./answer.cjs')
const native = require('./native.cjs')
const { checked } = require('./options.cjs')

/**
 * Returns a middleware of the AI SDK. A model's parts become the events of a chat, which the exchange reads, and the events that
 * it gives become parts again: so each provider has the same behaviour.
 */
function restitchMiddleware(options = {}) {
  const { onEvent, settings } = checked(options, ['onEvent'])

  const answerOf = (doFirst, params, model, isStream) => {
    const first = chatOf(params, isStream)
    const body = JSON.stringify(first)
    const exchange = native.exchangeForRequest(URL_OF_CHAT.hostname, URL_OF_CHAT.pathname, Buffer.from(body), settings)
    if (!exchange) return undefined
    const calls = new Calls(doFirst, params, model, first, body)
    const request = { url: URL_OF_CHAT.href, headers: new Headers(), body, signal: params.abortSignal }
    const make = isStream ? calls.stream : calls.generate
    return { calls, answer: new Answer(exchange, request, make, onEvent) }
  }

  return {
    specificationVersion: 'v3',

    async wrapStream({ doStream, params, model }) {
      const made = answerOf(doStream, params, model, true)
      if (!made) return doStream()
      await made.answer.open()
      return { ...made.calls.first, stream: partsOf(made) }
    },

    async wrapGenerate({ doGenerate, params, model }) {
      const made = answerOf(doGenerate, params, model, false)
      if (!made) return doGenerate()
      await made.answer.open()
      const body = JSON.parse(Buffer.from(await made.answer.bytes()))
      if (body.choices === undefined) throw new Error(body.error?.message ?? 'the answer could not be completed')
      return made.calls.generated(body.choices[0])
    },
  }
}

// Only the path counts: a model of another API would be asked in its own way, which the AI SDK does not have.
const URL_OF_CHAT = new URL('http://model/v1/chat/completions')

/** Returns the request of a chat that is like the parameters of a model's call. */
function chatOf({ prompt, responseFormat, tools, maxOutputTokens, stopSequences }, stream) {
  const functions = tools?.filter(({ type }) => type === 'function')
  const schema = responseFormat?.schema
  return {
    model: 'model',
    stream,
    messages: prompt.map(({ role, content }) => ({ role: role === 'tool' ? 'user' : role, content: textOf(content) })),
    max_completion_tokens: maxOutputTokens,
    stop: stopSequences,
    response_format:
      responseFormat?.type !== 'json'
        ? undefined
        : schema
          ? { type: 'json_schema', json_schema: { name: responseFormat.name ?? 'answer', schema } }
          : { type: 'json_object' },
    tools: functions?.length
      ? functions.map(({ name, inputSchema }) => ({ type: 'function', function: { name, parameters: inputSchema } }))
      : undefined,
  }
}

function textOf(content) {
  if (typeof content === 'string') return content
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('')
}

/** Makes the calls of an answer, and gives them as responses of a chat. */
class Calls {
  /** What the first call returned beside its stream, or all of it. */
  first
  /** The parts of the first call that are not events of a chat. */
  parts = []
  usage
  finishReason
  #do
  #params
  #model
  #chat
  #body

  constructor(doFirst, params, model, chat, body) {
    this.#do = doFirst
    this.#params = params
    this.#model = model
    this.#chat = chat
    this.#body = body
  }

  stream = async (request) => {
    // Where nothing was delivered, the same call is made again.
    const isFirst = request.body === this.#body
    const made = await this.#call(request, 'doStream')
    if (made instanceof Response) return made
    const { stream, ...rest } = made
    this.first ??= rest
    const tools = new Map()
    const events = stream.pipeThrough(
      new TransformStream({
        transform: (part, controller) => {
          if (part.type === 'error') throw part.error
          for (const event of this.#events(part, tools, isFirst)) controller.enqueue(`data: ${JSON.stringify(event)}\n\n`)
        },
        flush: (controller) => controller.enqueue('data: [DONE]\n\n'),
      }),
    )
    return new Response(events.pipeThrough(new TextEncoderStream()), { headers: { 'content-type': TYPES.doStream } })
  }

  generate = async (request) => {
    const made = await this.#call(request, 'doGenerate')
    if (made instanceof Response) return made
    this.first ??= made
    this.#finished(made)
    const calls = made.content.filter(isOwnCall)
    const message = {
      role: 'assistant',
      content: made.content.map((part) => (part.type === 'text' ? part.text : '')).join('') || null,
      tool_calls: calls.length
        ? calls.map((call) => ({ id: call.toolCallId, type: 'function', function: { name: call.toolName, arguments: call.input } }))
        : undefined,
    }
    const choices = [{ index: 0, message, finish_reason: wordOf(made.finishReason) }]
    return Response.json({ id: 'answer', object: 'chat.completion', model: 'model', choices })
  }

  /** Returns the whole answer: the first one, with the text and the arguments of the chat. */
  generated({ message, finish_reason }) {
    const inputs = (message.tool_calls ?? []).map((call) => call.function.arguments)
    let text = message.content ?? ''
    const content = []
    for (const part of this.first.content) {
      if (isOwnCall(part)) content.push({ ...part, input: inputs.shift() ?? part.input })
      else if (part.type !== 'text') content.push(part)
      else if (text) {
        // All text of an answer is one document, so it is in one part.
        content.push({ ...part, text })
        text = ''
      }
    }
    return { ...this.first, content, finishReason: this.reasonOf(finish_reason), usage: this.usage }
  }

  /** Returns a finish of the chat as the AI SDK's: the provider's own word, if it is that of a call. */
  reasonOf(word) {
    return wordOf(this.finishReason) === word ? this.finishReason : { unified: REASONS[word] ?? 'other', raw: undefined }
  }

  /**
   * Makes a call. A refusal of a further one is a response, so that the exchange reads its status, and so is a body that was
   * lost after its head.
   */
  async #call({ body, signal }, method) {
    const isFirst = this.first === undefined
    try {
      return await (isFirst ? this.#do() : this.#model[method](this.#further(JSON.parse(body), signal)))
    } catch (error) {
      const { statusCode, responseBody, responseHeaders } = error ?? {}
      if (statusCode === 200 && responseBody === undefined) {
        const lost = new ReadableStream({ start: (controller) => controller.error(error) })
        return new Response(lost, { headers: { 'content-type': TYPES[method] } })
      }
      if (isFirst || typeof statusCode !== 'number') throw error
      return new Response(responseBody ?? error.message, { status: statusCode, headers: responseHeaders })
    }
  }

  /** Returns the parameters of a further call. */
  #further({ messages, response_format, tools, tool_choice, max_completion_tokens }, abortSignal) {
    const params = this.#params
    const before = this.#chat.messages
    const changed = messages.findIndex(({ role, content }, at) => role !== before[at]?.role || content !== before[at].content)
    const kept = changed < 0 ? messages.length : changed
    return {
      ...params,
      prompt: [...params.prompt.slice(0, kept), ...messages.slice(kept).map(turnOf)],
      responseFormat: response_format ? params.responseFormat : { type: 'text' },
      tools: tools ? params.tools : undefined,
      toolChoice: tools && tool_choice === 'none' ? { type: 'none' } : tools && params.toolChoice,
      maxOutputTokens: max_completion_tokens,
      abortSignal,
    }
  }

  /** Returns the events of a chat for a part. */
  *#events(part, tools, isFirst) {
    if (part.type === 'text-delta') yield chunk({ content: part.delta })
    else if (part.type === 'reasoning-delta' && !isFirst) yield chunk({ reasoning_content: part.delta })
    else if (part.type === 'tool-input-start' && isFirst && isOwnInput(part)) {
      yield this.#opaque(part)
      const index = tools.size
      tools.set(part.id, index)
      const call = { index, id: part.id, type: 'function', function: { name: part.toolName, arguments: '' } }
      yield chunk({ tool_calls: [call] })
    } else if (part.type === 'tool-input-delta' && tools.has(part.id)) {
      yield chunk({ tool_calls: [{ index: tools.get(part.id), function: { arguments: part.delta } }] })
    } else if (part.type === 'finish') {
      this.#finished(part)
      if (isFirst) yield this.#opaque(part)
      yield chunk({}, wordOf(part.finishReason))
    } else if (isFirst) yield this.#opaque(part)
  }

  /** Returns an event that passes unchanged, for a part that is not one of a chat. */
  #opaque(part) {
    this.parts.push(part)
    return { ...chunk({}), part: this.parts.length - 1 }
  }

  #finished({ usage, finishReason }) {
    this.usage = sum(this.usage, usage)
    this.finishReason = finishReason
  }
}

const TYPES = { doStream: 'text/event-stream', doGenerate: 'application/json' }

/** Whether the input of a call is JSON that this program gets: the provider's own calls and raw text pass. */
const isOwnInput = (part) => !part.providerExecuted && part.inputEncoding !== 'text'

const isOwnCall = (part) => part.type === 'tool-call' && !part.providerExecuted

const turnOf = ({ role, content }) => {
  const text = textOf(content)
  return { role, content: role === 'system' ? text : [{ type: 'text', text }] }
}

const chunk = (delta, finish_reason = null) => ({
  id: 'answer',
  object: 'chat.completion.chunk',
  model: 'model',
  choices: [{ index: 0, delta, finish_reason }],
})

const WORDS = { stop: 'stop', length: 'length', 'content-filter': 'content_filter', 'tool-calls': 'tool_calls' }
const REASONS = Object.fromEntries(Object.entries(WORDS).map(([reason, word]) => [word, reason]))

const wordOf = (finishReason) => WORDS[finishReason?.unified] ?? finishReason?.unified ?? null

/** Adds the numbers of all calls. */
function sum(one, other) {
  if (typeof one === 'number' || typeof other === 'number') return (one ?? 0) + (other ?? 0)
  if (one === null || typeof one !== 'object' || other === null || typeof other !== 'object') return other ?? one
  const names = new Set([...Object.keys(one), ...Object.keys(other)])
  return Object.fromEntries([...names].map((name) => [name, name === 'raw' ? other[name] : sum(one[name], other[name])]))
}

/** Returns the parts of an answer. */
function partsOf({ calls, answer }) {
  const parts = readParts(calls, answer)
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await parts.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel(reason) {
        answer.abandon(reason)
      },
    },
    { highWaterMark: 0 },
  )
}

async function* readParts(calls, answer) {
  const open = new Open()
  const decoder = new TextDecoder()
  let text = ''
  for (let bytes; (bytes = await answer.bytes()); ) {
    text += decoder.decode(bytes, { stream: true })
    const events = text.split('\n\n')
    text = events.pop()
    for (const event of events) {
      const data = event.split('\n').find((line) => line.startsWith('data: {'))
      if (data) yield* open.parts(JSON.parse(data.slice(6)), calls)
    }
  }
  yield* open.end(calls)
}

/** The open text and tool calls of a stream, whose ends wait until it is clear that no text follows. */
class Open {
  #text
  #tools = []
  #held = []
  #finish
  #closed = new Set()
  /** The parts that a call has begun with: one that is made again begins with them once more. */
  #seen = new Set()

  #isNew({ type, id }) {
    const key = `${type} ${id}`
    const isBegin = type === 'stream-start' || type === 'response-metadata' || type.endsWith('-start')
    if (!isBegin) return true
    const isNew = !this.#seen.has(key)
    this.#seen.add(key)
    return isNew
  }

  *parts({ part: at, choices, error }, calls) {
    if (error) yield { type: 'error', error: new Error(error.message) }
    if (at !== undefined) {
      const part = calls.parts[at]
      if (part.type === 'finish') this.#finish = part
      else if (part.type.endsWith('-end') || isOwnCall(part)) this.#held.push(part)
      else if (this.#isNew(part)) {
        yield* this.#release()
        if (part.type === 'text-start') this.#text = part.id
        if (part.type === 'tool-input-start' && isOwnInput(part)) {
          this.#tools.push({ id: part.id, name: part.toolName, input: '' })
        }
        yield part
      }
      return
    }
    const [choice] = choices ?? []
    if (choice?.delta?.content) yield { type: 'text-delta', id: this.#text, delta: choice.delta.content }
    for (const { index, function: call } of choice?.delta?.tool_calls ?? []) {
      const tool = this.#tools[index]
      if (!tool || !call.arguments) continue
      tool.input += call.arguments
      yield { type: 'tool-input-delta', id: tool.id, delta: call.arguments }
    }
    if (choice?.finish_reason) this.reason = choice.finish_reason
  }

  *end(calls) {
    const hasText = this.#text !== undefined && !this.#held.some(({ type, id }) => type === 'text-end' && id === this.#text)
    if (hasText && !this.#closed.has(this.#text)) this.#held.push({ type: 'text-end', id: this.#text })
    for (const { id, name, input } of this.#tools) {
      // An answer that is cut has no end of the call, and one that was given up must not have it.
      if (this.reason !== 'tool_calls' || this.#closed.has(id) || this.#held.some((part) => part.toolCallId === id)) continue
      if (!this.#held.some((part) => part.id === id)) this.#held.push({ type: 'tool-input-end', id })
      this.#held.push({ type: 'tool-call', toolCallId: id, toolName: name, input })
    }
    yield* this.#release()
    if (!this.reason) return
    const { usage } = calls
    yield { ...this.#finish, type: 'finish', finishReason: calls.reasonOf(this.reason), usage }
  }

  *#release() {
    for (const part of this.#held.splice(0)) {
      const tool = isOwnCall(part) ? this.#tools.find(({ id }) => id === part.toolCallId) : undefined
      this.#closed.add(part.toolCallId ?? part.id)
      yield tool?.input ? { ...part, input: tool.input } : part
    }
  }
}

module.exports = { restitchMiddleware }
