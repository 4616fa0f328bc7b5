'use strict'

const { JSONError } = require('./errors.cjs')
const native = require('./native.cjs')

function loads(text, { partial = false } = {}) {
  return JSON.parse(valueOf(native.jsonOf(checked(text), Boolean(partial))))
}

function complete(text) {
  return valueOf(native.complete(checked(text))) ?? undefined
}

function repair(text, { level = 'guess' } = {}) {
  const { json, status, repairs } = native.repair(checked(text), level)
  return { json, status, repairs: JSON.parse(repairs) }
}

function checked(text) {
  if (typeof text !== 'string') throw new TypeError('the text is not a string')
  return text
}

/** Returns a result of the addon, or throws the failure. */
function valueOf(result) {
  if (typeof result === 'object' && result !== null) throw new JSONError(result)
  return result
}

module.exports = { complete, loads, repair }
