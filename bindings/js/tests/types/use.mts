// The declarations with `import`. It is compiled, not run.

import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import { wrapLanguageModel, type LanguageModel } from 'ai'
import OpenAI from 'openai'
import { JSONError, LiveValue, complete, liveValues, loads, repair, restitch, restitchMiddleware } from 'restitch'

new OpenAI({ fetch: restitch() })
new GoogleGenAI({ httpOptions: { fetch: restitch() } })
new Anthropic({ fetch: restitch({ idleTimeout: 1000, onGiveUp: 'close', onEvent: ({ event }) => event.length }) })
new Anthropic({ middleware: [restitch()] })
export const wrapped = (model: Extract<LanguageModel, { specificationVersion: 'v3' }>) =>
  wrapLanguageModel({ model, middleware: restitchMiddleware({ maxContinuations: 2 }) })
// @ts-expect-error An option has a typing mistake.
restitch({ idleTimout: 1000 })

interface Titles {
  titles: { text: string; year: number }[]
}

const live = new LiveValue<Titles>({ immutable: true })
const year: number | undefined = live.feed('')?.titles?.[0]?.year
const whole: Titles = live.finish()
for await (const value of liveValues<Titles>(new ReadableStream<string>())) value.titles?.at(-1)?.text?.length

const text: string | undefined = complete('[')
const value: Titles = loads('{}', { partial: true })
const byte: number | undefined = new Error() instanceof JSONError ? new JSONError().byte : undefined
const [first] = repair('', { level: 'syntax' }).repairs
export const used = [year, whole, text, value, byte, first?.range]
