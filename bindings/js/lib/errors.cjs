'use strict'

/** A text is not JSON, or ends too early. */
class JSONError extends SyntaxError {
  constructor({ message, byte, index, line, column, path, isTruncated }) {
    super(message)
    this.name = 'JSONError'
    this.byte = byte
    this.index = index
    this.line = line
    this.column = column
    this.path = path
    this.isTruncated = isTruncated
  }
}

module.exports = { JSONError }
