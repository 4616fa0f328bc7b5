/** The settings of `restitch`. Times are in milliseconds. */
export interface Options {
  /** The most calls for the rest of an answer. */
  maxContinuations?: number
  /** The most time for an answer, after which no further call is made. */
  maxTotalTime?: number
  /** The time without bytes after which a call has failed. */
  idleTimeout?: number
  /** The time until the first text of a call after which it has failed. */
  firstByteTimeout?: number
  /**
   * How an answer ends whose rest can't be obtained. `leave` (default): as it was cut. `close`: with
   * the shortest text that makes it valid JSON. `error`: with an error.
   */
  onGiveUp?: 'leave' | 'close' | 'error'
  /** How much of the JSON may be repaired. Default: `strict`, which is nothing. */
  repair?: 'strict' | 'syntax' | 'guess'
  /** How an answer in prose is handled that is cut off. `pass` (default): it passes unchanged. */
  prose?: 'pass' | 'anchor'
  /** Gets each step of the loop, and at the end of an answer its report: the event `done`. */
  onEvent?: (event: RestitchEvent) => unknown
  /** Makes the calls. Default: the global `fetch`. */
  fetch?: (input: string, init?: RequestInit) => Promise<Response>
}

/** A step of the loop, or the report. */
export interface RestitchEvent {
  event: string
  [member: string]: unknown
}

/** A request in one object, as Anthropic's SDK gives it to a middleware. */
export type MiddlewareRequest = Omit<RequestInit, 'headers'> & { url: string; headers: Headers }

/** `fetch` for SDKs, and a middleware for Anthropic's. */
export interface WholeFetch {
  (input: string | URL | Request, init?: RequestInit): Promise<Response>
  (request: MiddlewareRequest, next: (request: any) => Promise<Response>, context?: unknown): Promise<Response>
}

/**
 * Returns a `fetch` that makes the answers of language models whole. Other requests pass unchanged.
 *
 * An error before the first byte of an answer is that of `fetch`, so an SDK may retry. After it no
 * error invites a retry.
 */
export function restitch(options?: Options): WholeFetch

/**
 * Returns a middleware of the AI SDK: `wrapLanguageModel({ model, middleware: restitchMiddleware() })`.
 * It works with the parts of any model, tool calls included.
 */
export function restitchMiddleware(options?: Omit<Options, 'fetch'>): AIMiddleware

/** A middleware of the AI SDK, for language models of its specifications 3 and 4. */
export interface AIMiddleware {
  readonly specificationVersion: 'v3'
  wrapGenerate(options: any): Promise<any>
  wrapStream(options: any): Promise<any>
}

/** A text is not JSON, or ends too early. */
export class JSONError extends SyntaxError {
  /** The number of bytes before the error, in UTF-8. */
  readonly byte: number
  /** The index of the error in the string. */
  readonly index: number
  /** The line, from 1 on. */
  readonly line: number
  /** The column in characters, from 1 on. */
  readonly column: number
  /** The JSON Pointer of the value that is due or open there. */
  readonly path: string
  /** The text is right up to its end, and ends too early. */
  readonly isTruncated: boolean
}

/**
 * Reads JSON in the text of a model, also if it is in a Markdown fence or prose.
 *
 * `partial`: a text that is cut off is read up to the cut, an open string with its received part.
 * Numbers, literals, keys and escapes that may be incomplete are left out. Otherwise a cut is a
 * `JSONError`.
 */
export function loads(text: string, options?: { partial?: boolean }): any

/**
 * Returns the complete part of a text that is cut off: valid JSON, with the received part of an open
 * string, and without anything that may be incomplete. `undefined` if nothing of a document is certain.
 */
export function complete(text: string): string | undefined

/** The result of a repair. */
export interface Repaired {
  /** The repaired JSON, or the complete part of a text that is malformed or cut off. */
  json: string
  status: 'valid' | 'repaired' | 'truncated' | 'malformed'
  repairs: Repair[]
}

/** A change that a repair has made. */
export interface Repair {
  rule: string
  level: string
  /** The range in the text, in bytes of UTF-8. */
  range: { start: number; end: number }
  original: string
  replacement: string
  path: string
}

/**
 * Repairs the mistakes that models make in JSON. Text around the JSON, such as a fence or prose, is
 * left out. Valid JSON stays unchanged.
 *
 * `level`: `strict` repairs nothing, `syntax` leaves each whole token as it is, `guess` (default)
 * also chooses between readings.
 */
export function repair(text: string, options?: { level?: 'strict' | 'syntax' | 'guess' }): Repaired

/** The settings of a live value. */
export interface LiveOptions {
  /** The value has the received part of an open string. Default: true. */
  strings?: boolean
  /**
   * A change makes a new object of each container that it is in, and leaves the earlier values as
   * they were. Default: false, the value grows in place.
   */
  immutable?: boolean
}

/** A value whose members may not have arrived. */
export type DeepPartial<T> = unknown extends T
  ? any
  : T extends readonly (infer Item)[]
    ? DeepPartial<Item>[]
    : T extends object
      ? { [Key in keyof T]?: DeepPartial<T[Key]> }
      : T

/**
 * The value of a JSON document while its text arrives. A delta costs time for what it changes, and
 * not for the whole value.
 */
export class LiveValue<T = any> {
  constructor(options?: LiveOptions)
  /** Takes more text. Returns the value so far; `undefined` before its first bracket. */
  feed(delta: string): DeepPartial<T> | undefined
  /** Takes the end of the text. A document that is not complete is a `JSONError`, unless `partial`. */
  finish(options?: { partial?: boolean }): T
  /** The value so far. */
  readonly value: DeepPartial<T> | undefined
  /** The last text has changed the value. */
  readonly isChanged: boolean
  /** The document is complete. */
  readonly isComplete: boolean
  /** The JSON Pointer of the value that is open or due. */
  readonly path: string
  /** All text so far. */
  readonly text: string
}

/**
 * Yields the value of a JSON document after each delta that changes it. If the stream ends before
 * the document, it throws a `JSONError`, unless `partial`.
 */
export function liveValues<T = any>(
  stream: AsyncIterable<string> | Iterable<string> | ReadableStream<string>,
  options?: LiveOptions & { partial?: boolean },
): AsyncGenerator<DeepPartial<T>, void, undefined>
