'use strict'

const native = require('./native.cjs')

// An unknown name is an error, since a setting with a typing mistake would do nothing.
const NAMES = new Set([
  'maxContinuations',
  'maxTotalTime',
  'idleTimeout',
  'firstByteTimeout',
  'onGiveUp',
  'repair',
  'prose',
])

/** Checks options: some are functions, and the others are the settings of an exchange. */
function checked(options, functions) {
  const { fetch, onEvent, ...settings } = options
  for (const name of functions) {
    const value = options[name]
    if (value !== undefined && typeof value !== 'function') throw new TypeError(`${name} is not a function`)
  }
  const unknown = Object.keys(options).find((name) => !NAMES.has(name) && !functions.includes(name))
  if (unknown !== undefined) throw new TypeError(`restitch has no option ${unknown}`)
  try {
    native.exchangeForRequest('', '', new Uint8Array(), settings)
  } catch (error) {
    throw new TypeError(error.message)
  }
  return { fetch, onEvent, settings }
}

module.exports = { checked }
