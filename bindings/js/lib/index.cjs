'use strict'

const { restitchMiddleware } = require('./ai.cjs')
const { JSONError } = require('./errors.cjs')
const { restitch } = require('./fetch.cjs')
const { LiveValue, liveValues } = require('./live.cjs')
const { complete, loads, repair } = require('./partial.cjs')

module.exports = { JSONError, LiveValue, complete, liveValues, loads, repair, restitch, restitchMiddleware }
