'use strict'

const { JSONError } = require('./errors.cjs')
const native = require('./native.cjs')

// The changes that `src/live.rs` writes.
const [OBJECT, ARRAY, END, KEY, STRING_BEGIN, FRAGMENT, STRING_END, NUMBER, TRUE, FALSE, NULL, WITHDRAWN, FAILED] = Buffer.from('{[]k"fenTFNw!')

/** The value of a JSON document while its text arrives. */
class LiveValue {
  #document = new native.LiveDocument()
  #strings
  #immutable
  #root
  /** The open containers, the root first, and the key of each in the one before. */
  #open = []
  #keys = []
  /** The key of the member that is due or open in the innermost container. */
  #key
  /** The received part of the open string. */
  #string
  /** The received part is in the value. */
  #isShown = false
  /** The last text has changed the value. */
  #isChanged = false
  /** The first half of a surrogate pair whose second half is in the next delta. */
  #half = ''

  constructor({ strings = true, immutable = false } = {}) {
    this.#strings = strings
    this.#immutable = immutable
  }

  feed(delta) {
    if (typeof delta !== 'string') throw new TypeError('a delta is not a string')
    if (this.#half) {
      delta = this.#half + delta
      this.#half = ''
    }
    const last = delta.charCodeAt(delta.length - 1)
    if (last >= 0xd800 && last < 0xdc00) {
      this.#half = delta.slice(-1)
      delta = delta.slice(0, -1)
    }
    this.#apply(this.#document.push(delta))
    return this.#root
  }

  finish({ partial = false } = {}) {
    if (this.#half) this.#apply(this.#document.push(this.#half))
    this.#half = ''
    try {
      this.#apply(this.#document.finish())
    } catch (error) {
      if (!partial || !error.isTruncated || this.#root === undefined) throw error
    }
    return this.#root
  }

  get value() {
    return this.#root
  }

  get isChanged() {
    return this.#isChanged
  }

  get isComplete() {
    return this.#document.isComplete
  }

  get path() {
    return this.#document.path
  }

  get text() {
    return this.#document.text
  }

  /** Applies the changes of a push, in the form that `src/live.rs` describes. */
  #apply(changes) {
    this.#isChanged = false
    let hasFailed = false
    let text
    for (let at = 0; at < changes.length; ) {
      const change = changes.charCodeAt(at++)
      if (change === KEY || change === FRAGMENT || change === NUMBER) {
        let digit = changes.charCodeAt(at++)
        let length = digit & 0x3f
        for (let shift = 6; digit >= 0x40; shift += 6) {
          digit = changes.charCodeAt(at++)
          length |= (digit & 0x3f) << shift
        }
        text = changes.slice(at, (at += length))
      }
      switch (change) {
        case FRAGMENT:
          this.#string += text
          break
        case KEY:
          this.#key = text
          break
        case STRING_BEGIN:
          this.#string = ''
          break
        case STRING_END:
          this.#putString()
          this.#string = undefined
          this.#isShown = false
          break
        case NUMBER:
          this.#put(Number(text))
          break
        case TRUE:
          this.#put(true)
          break
        case FALSE:
          this.#put(false)
          break
        case NULL:
          this.#put(null)
          break
        case OBJECT:
          this.#begin({})
          break
        case ARRAY:
          this.#begin([])
          break
        case END:
          this.#open.pop()
          this.#key = this.#keys.pop()
          break
        case WITHDRAWN:
          this.#root = undefined
          this.#open = []
          this.#keys = []
          this.#key = undefined
          this.#isChanged = true
          break
        case FAILED:
          hasFailed = true
      }
    }
    if (this.#strings && this.#string !== undefined) {
      this.#putString()
      this.#isShown = true
    }
    if (hasFailed) throw new JSONError(this.#document.failure())
  }

  #begin(container) {
    this.#put(container)
    const parent = this.#open.at(-1)
    this.#keys.push(Array.isArray(parent) ? parent.length - 1 : this.#key)
    this.#open.push(container)
    this.#key = undefined
  }

  /** Puts the open string where its value is due, or in place of its part that is shown. */
  #putString() {
    const container = this.#open[this.#open.length - 1]
    if (!this.#isShown) return this.#put(this.#string)
    const key = Array.isArray(container) ? container.length - 1 : this.#key
    if (container[key] === this.#string) return
    this.#change()
    set(this.#open[this.#open.length - 1], key, this.#string)
  }

  /** Puts a value where one is due. */
  #put(value) {
    this.#change()
    const container = this.#open[this.#open.length - 1]
    if (container === undefined) this.#root = value
    else if (Array.isArray(container)) container.push(value)
    else set(container, this.#key, value)
  }

  /** Notes a change of the value. An immutable value changes in copies of the open containers. */
  #change() {
    if (this.#isChanged) return
    this.#isChanged = true
    if (!this.#immutable) return
    const open = this.#open
    for (let at = 0; at < open.length; at++) {
      open[at] = Array.isArray(open[at]) ? open[at].slice() : { ...open[at] }
      if (at === 0) this.#root = open[0]
      else set(open[at - 1], this.#keys[at], open[at])
    }
  }
}

/** Sets a member as `JSON.parse` does: `__proto__` is a key like any other. */
function set(container, key, value) {
  if (key !== '__proto__') container[key] = value
  else Object.defineProperty(container, key, { value, writable: true, enumerable: true, configurable: true })
}

async function* liveValues(stream, { partial = false, ...options } = {}) {
  const live = new LiveValue(options)
  for await (const delta of stream) {
    const value = live.feed(delta)
    if (live.isChanged && value !== undefined) yield value
  }
  const value = live.finish({ partial })
  if (live.isChanged) yield value
}

module.exports = { LiveValue, liveValues }
