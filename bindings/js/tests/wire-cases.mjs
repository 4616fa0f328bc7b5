// Reads the files of `tests/wire-cases`.

import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'

const FOLDER = process.env.RESTITCH_WIRE_CASES
if (!FOLDER) throw new Error('RESTITCH_WIRE_CASES is the folder tests/wire-cases')

// The pictures of control characters.
const PICTURES = new Map([['␠', ' '], ['␡', '\x7f'], ['⍽', '\xa0']])
for (let code = 0; code < 0x20; code++) PICTURES.set(String.fromCharCode(0x2400 + code), String.fromCharCode(code))
const PICTURE = new RegExp(`[${[...PICTURES.keys()].join('')}]`, 'g')

const NUMBERS = { max_continuations: ['maxContinuations', 1], idle_timeout: ['idleTimeout', 1e3], first_byte_timeout: ['firstByteTimeout', 1e3] }
const WORDS = { on_give_up: 'onGiveUp', repair: 'repair', prose: 'prose' }

class Case {
  constructor(name, facts, blocks) {
    Object.assign(this, { name, facts, blocks })
  }

  fact(name) {
    return this.facts.find(([known]) => known === name)?.[1]
  }

  get calls() {
    return this.facts.filter(([name]) => name === 'call').map(([, value]) => value)
  }

  texts(name) {
    return this.blocks.filter(([known]) => known === name).map(([, text]) => text)
  }

  get settings() {
    const settings = {}
    for (const [fact, [option, unit]] of Object.entries(NUMBERS)) {
      if (this.fact(fact)) settings[option] = Number(this.fact(fact)) * unit
    }
    for (const [fact, option] of Object.entries(WORDS)) if (this.fact(fact)) settings[option] = this.fact(fact)
    return settings
  }
}

function read(path) {
  const name = basename(path, '.md')
  const [title, ...lines] = readFileSync(path, 'utf8').split('\n')
  assert.equal(title, `# ${name}`)
  const facts = []
  const blocks = []
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]
    if (line.startsWith('```')) {
      const end = lines.indexOf('```', at + 1)
      const text = lines.slice(at + 1, end).join('\n')
      blocks.push([line.slice(3), text.replace(PICTURE, (picture) => PICTURES.get(picture))])
      at = end
    } else if (line.startsWith('- ')) {
      const [fact, ...value] = line.slice(2).split(': ')
      facts.push([fact, value.join(': ')])
    }
  }
  return new Case(name, facts, blocks)
}

export const CASES = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.md') && name !== 'README.md')
  .sort()
  .map((name) => read(join(FOLDER, name)))

/** Returns whether a value fits a pattern. */
export function fits(pattern, value) {
  if (typeof pattern === 'string' && typeof value === 'string') {
    const wild = pattern.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    return new RegExp(`^${wild.join('.*')}$`, 's').test(value)
  }
  if (pattern === null || typeof pattern !== 'object') return pattern === value
  if (Array.isArray(pattern)) {
    return Array.isArray(value) && pattern.length === value.length && pattern.every((item, at) => fits(item, value[at]))
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return false
  return Object.keys(pattern).every((key) => Object.hasOwn(value, key) && fits(pattern[key], value[key]))
}

/** Fails with the first value that does not fit its pattern. */
export function assertFits(what, patterns, values) {
  assert.equal(values.length, patterns.length, `${what}: ${patterns.length} are due\n${values.join('\n')}`)
  for (const [at, pattern] of patterns.entries()) {
    assert.ok(isFit(pattern, values[at]), `${what}\n  wanted ${pattern}\n  found  ${values[at]}`)
  }
}

function isFit(pattern, value) {
  if (isDeepStrictEqual(pattern, value)) return true
  try {
    return fits(JSON.parse(pattern), JSON.parse(value))
  } catch {
    return false
  }
}
