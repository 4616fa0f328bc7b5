// Partial JSON: values, complete parts and repairs.

import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'

import { JSONError, LiveValue, complete, liveValues, loads, repair } from 'restitch'

const DOCUMENT = {
  title: 'Tides\n\u20ac\u{1f600}',
  rows: [[1, 2.5, -3e4], {}, [], true, null, false],
  n: 1234567890,
  '': { __proto__x: 'a', b: ['c', ['d', '']] },
}
const TEXT = JSON.stringify(DOCUMENT)

/** Returns the failure of a function. */
function failure(run) {
  try {
    run()
  } catch (error) {
    assert.ok(error instanceof JSONError)
    return error
  }
  return assert.fail('there is no error')
}

test('a whole text is read as by JSON.parse', () => {
  assert.deepEqual(loads(TEXT), DOCUMENT)
  assert.deepEqual(loads(JSON.stringify(DOCUMENT, null, 2)), DOCUMENT)
  for (const text of ['1', '"a"', 'true', 'null', ' [1] ']) assert.deepEqual(loads(text), JSON.parse(text))
})

for (const [text, value] of [
  ['{"a": [1, 2', { a: [1] }],
  ['{"a": [1, 2, ', { a: [1, 2] }],
  ['{"a": "tex', { a: 'tex' }],
  ['{"a": "tex\\u00', { a: 'tex' }],
  ['{"a": "\\ud83d', { a: '' }],
  ['{"a": tr', {}],
  ['{"a', {}],
  ['{"a":', {}],
  ['[', []],
  ['["", "b"', ['', 'b']],
  ['Here it is:\n```json\n[1, 2', [1]],
]) {
  test(`${JSON.stringify(text)} is read up to the cut`, () => {
    assert.deepEqual(loads(text, { partial: true }), value)
    assert.deepEqual(JSON.parse(complete(text)), value)
    const error = failure(() => loads(text))
    assert.deepEqual([error.byte, error.index, error.isTruncated], [Buffer.byteLength(text), text.length, true])
  })
}

test('an error says where', () => {
  const error = failure(() => loads('{"\u{1f600}": [1,\n  2, x]}'))
  assert.ok(error instanceof SyntaxError)
  const { byte, index, line, column, path, isTruncated } = error
  assert.deepEqual({ byte, index, line, column, path, isTruncated }, { byte: 18, index: 16, line: 2, column: 6, path: '/\u{1f600}/2', isTruncated: false })
  assert.match(error.message, /line 2, column 6/)
  assert.throws(() => complete('[1, x'), JSONError)
})

test('a text without JSON is an error', () => {
  for (const text of ['', '  ', 'Hello there.']) {
    for (const partial of [true, false]) assert.throws(() => loads(text, { partial }), JSONError)
  }
  assert.equal(complete(''), undefined)
  assert.throws(() => loads(3), TypeError)
  assert.throws(() => loads('['.repeat(100_000), { partial: true }), /max_depth/)
})

const ROOTS = [
  ['[TOOL_CALLS] [{"name": "f"}]', [{ name: 'f' }]],
  ['[INST] {"a": 1}', { a: 1 }],
  ['[Note]: {"a": [1]}', { a: [1] }],
  ['Here it is:\n```json\n{"a": 1}\n```\nBye.', { a: 1 }],
]
for (const [text, value] of ROOTS) {
  test(`${JSON.stringify(text)} has its root as its value`, async () => {
    assert.deepEqual(loads(text), value)
    assert.deepEqual(JSON.parse(complete(text)), value)
    for (const immutable of [false, true]) {
      for (const size of [1, 3, 1000]) {
        const live = new LiveValue({ immutable })
        for (let at = 0; at < text.length; at += size) live.feed(text.slice(at, at + size))
        assert.deepEqual([live.value, live.isComplete, live.finish()], [value, true, value])
      }
    }
    assert.deepEqual((await collected([...text])).at(-1), value)
  })
}

test('JSON is found in a sentence', () => {
  for (const text of ['The answer is {"a": 1}, I think.', '[1] {"a": 1}']) assert.deepEqual(loads(text), { a: 1 })
  assert.match(failure(() => loads('[See the docs]')).message, /there is no JSON/)
  assert.throws(() => loads('2026 was a good year.'), JSONError)
})

test('a live value forgets a bracket of prose', () => {
  const live = new LiveValue()
  assert.deepEqual(live.feed('['), [])
  assert.equal(live.feed('True, 1]'), undefined)
})

test('the root in which the text is cut is read', () => {
  const text = '{"status": "ok"}\n{"rows": [{"id": 1}, {"id": 2'
  assert.deepEqual(loads(text, { partial: true }), { rows: [{ id: 1 }, {}] })
  const live = new LiveValue()
  live.feed(text)
  assert.deepEqual(live.finish({ partial: true }), { rows: [{ id: 1 }, {}] })
})

test('both module systems have the same objects', () => {
  assert.equal(createRequire(import.meta.url)('restitch').JSONError, JSONError)
})

for (const size of [1, 4, 1000]) {
  for (const immutable of [false, true]) {
    test(`a live value grows by ${size} units, ${immutable ? 'by new objects' : 'in place'}`, () => {
      const live = new LiveValue({ immutable })
      assert.equal(live.value, undefined)
      let last
      const seen = []
      for (let at = 0; at < TEXT.length; at += size) {
        const value = live.feed(TEXT.slice(at, at + size))
        if (!immutable) assert.ok(last === undefined || value === last)
        else assert.equal(value === last, !live.isChanged)
        last = value
        // The half of a surrogate pair waits for the other one.
        const received = TEXT.slice(0, at + size).replace(/[\ud800-\udbff]$/, '')
        const expected = loads(received, { partial: true })
        assert.deepEqual(value, expected)
        seen.push([value, expected])
      }
      assert.ok(live.isComplete)
      assert.equal(live.finish(), live.value)
      assert.deepEqual(live.value, DOCUMENT)
      assert.equal(live.text, TEXT)
      if (immutable) for (const [value, expected] of seen) assert.deepEqual(value, expected)
    })
  }
}

test('an immutable value keeps the objects that do not change', () => {
  const live = new LiveValue({ immutable: true })
  const first = live.feed('{"a": {"b": [1]}, "c": [[2], [')
  const second = live.feed('3')
  assert.equal(second, first, 'a number may go on')
  const third = live.feed(', "x')
  assert.notEqual(third, first)
  assert.equal(third.a, first.a)
  assert.equal(third.c[0], first.c[0])
  assert.notEqual(third.c[1], first.c[1])
  assert.deepEqual(first, { a: { b: [1] }, c: [[2], []] })
  assert.equal(live.feed(''), third)
})

test('a live value may leave open strings out', () => {
  const live = new LiveValue({ strings: false })
  assert.deepEqual(live.feed('{"a": "b", "c": "d'), { a: 'b' })
  assert.equal(live.path, '/c')
  assert.deepEqual(live.feed('"'), { a: 'b', c: 'd' })
})

test('a live value reports a mistake with its place', () => {
  const live = new LiveValue()
  live.feed('{"a": [1,\n')
  const { byte, line, path } = failure(() => live.feed('x]}'))
  assert.deepEqual({ byte, line, path }, { byte: 10, line: 2, path: '/a/1' })
  assert.deepEqual(live.value, { a: [1] })
})

test('__proto__ is a key like any other', () => {
  const text = '{"__proto__": {"a": "bc"}, "b": {"__proto__": "text"}}'
  for (const immutable of [false, true]) {
    const live = new LiveValue({ immutable })
    for (const unit of text) live.feed(unit)
    assert.equal(JSON.stringify(live.value), JSON.stringify(JSON.parse(text)))
    assert.equal(Object.getPrototypeOf(live.value), Object.prototype)
  }
})

test('the last of equal keys counts', () => {
  assert.deepEqual(loads('{"a": 1, "a": [2]}'), { a: [2] })
  assert.deepEqual(new LiveValue().feed('{"a": "x", "a": "xy", "b": ["x"], "b": "x"}'), { a: 'xy', b: 'x' })
})

test('long texts and keys arrive whole', () => {
  for (const length of [63, 64, 4095, 4096, 300_000]) {
    const value = { ['k'.repeat(length)]: '\u20ac'.repeat(length) }
    assert.deepEqual(new LiveValue().feed(JSON.stringify(value)), value)
  }
})

async function collected(stream, options) {
  const values = []
  for await (const value of liveValues(stream, options)) values.push(structuredClone(value))
  return values
}

test('live values come from any stream of text', async () => {
  const deltas = ['{"a"', ': [1', ', ', '"b', '"', ']', '}']
  const expected = [{}, { a: [] }, { a: [1] }, { a: [1, 'b'] }]
  assert.deepEqual(await collected(deltas), expected)
  assert.deepEqual(await collected(ReadableStream.from(deltas)), expected)
})

test('live values of a stream that ends too early are an error', async () => {
  const cut = ['{"a": ["x', 'y']
  const values = []
  await assert.rejects(async () => {
    for await (const value of liveValues(cut, { immutable: true })) values.push(value)
  }, JSONError)
  assert.deepEqual(values, [{ a: ['x'] }, { a: ['xy'] }])
  assert.deepEqual(await collected(cut, { partial: true }), values)
  await assert.rejects(collected(['Hello'], { partial: true }), JSONError)
  await assert.rejects(collected(['[1, x'], { partial: true }), JSONError)
  await assert.rejects(collected([undefined]), TypeError)
})

test('a reader of live values that leaves closes the stream', async () => {
  let isClosed = false
  const stream = new ReadableStream({
    pull: (controller) => controller.enqueue('[1, '),
    cancel: () => (isClosed = true),
  })
  for await (const value of liveValues(stream)) if (value) break
  assert.ok(isClosed)
})

test('mistakes are repaired', () => {
  const repaired = repair("{'a': [1, 2,], b: True}")
  assert.deepEqual(JSON.parse(repaired.json), { a: [1, 2], b: true })
  assert.equal(repaired.status, 'repaired')
  assert.deepEqual(Object.keys(repaired.repairs[0]).sort(), ['level', 'original', 'path', 'range', 'replacement', 'rule'])
  assert.equal(repair('{"a": 1}').status, 'valid')
  assert.equal(repair('{"a": 1').status, 'truncated')
  assert.equal(repair("{'a': 1}", { level: 'strict' }).status, 'malformed')
  assert.throws(() => repair('{}', { level: 'all' }))
})
