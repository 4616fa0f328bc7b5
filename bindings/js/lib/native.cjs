'use strict'

// One addon a platform; on Linux there are two C libraries.
const platform = `${process.platform}-${process.arch}`

function load() {
  let first
  for (const name of [platform, `${platform}-musl`]) {
    try {
      return require(`../native/restitch.${name}.node`)
    } catch (error) {
      if (first === undefined || error.code !== 'MODULE_NOT_FOUND') first = error
    }
  }
  throw new Error(`restitch has no addon that works on ${platform}`, { cause: first })
}

module.exports = load()
