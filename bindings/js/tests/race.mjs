// Partial values after each delta, against other packages: `node race.mjs [KIB]`.
//
// Each reads the same document in deltas of four units, and has the value after each of them. Packages that read the text from
// its beginning each time need time by the square of its size. A package that is not installed is left out.

import { isDeepStrictEqual } from 'node:util'

import { LiveValue, loads } from 'restitch'

const SIZE = 4

function document(kib) {
  const rows = []
  let text = ''
  while (text.length < kib << 10) {
    const id = rows.length
    const row = { id, name: `Row ${id}`, tags: ['a', 'b'], text: 'The river rose slowly. '.repeat(4), share: id / 7 }
    rows.push(row)
    text = JSON.stringify({ rows })
  }
  return text
}

/** Returns a package, if it is installed. */
const optional = (name) => import(name).catch(() => undefined)

/** A run takes deltas, and returns the last value. */
const entries = {
  restitch: (deltas) => {
    const live = new LiveValue()
    let value
    for (const delta of deltas) value = live.feed(delta)
    return value
  },
  'restitch, immutable': (deltas) => {
    const live = new LiveValue({ immutable: true })
    let value
    for (const delta of deltas) value = live.feed(delta)
    return value
  },
  'restitch, loads': whole((text) => loads(text, { partial: true })),
}

/** Returns the run of a package that reads a whole text. */
function whole(read) {
  return (deltas) => {
    let text = ''
    let value
    for (const delta of deltas) {
      text += delta
      try {
        value = read(text)
      } catch {
        // Some packages have no value before the first bracket.
      }
    }
    return value
  }
}

const partialJson = await optional('partial-json')
if (partialJson) entries['partial-json'] = whole((text) => partialJson.parse(text))

const jsonrepair = await optional('jsonrepair')
if (jsonrepair) entries.jsonrepair = whole((text) => JSON.parse(jsonrepair.jsonrepair(text)))

const streamparser = await optional('@streamparser/json')
if (streamparser) {
  entries['@streamparser/json'] = (deltas) => {
    let value
    const parser = new streamparser.JSONParser({ emitPartialValues: true, emitPartialTokens: true, paths: ['$'], keepStack: true })
    parser.onValue = (event) => (value = event.value)
    for (const delta of deltas) parser.write(delta)
    return value
  }
}

const jsonriver = await optional('jsonriver')
if (jsonriver) {
  entries.jsonriver = async (deltas) => {
    let value
    const stream = (async function* () {
      yield* deltas
    })()
    for await (value of jsonriver.parse(stream));
    return value
  }
}

const text = document(Number(process.argv[2] ?? 50))
const deltas = []
for (let at = 0; at < text.length; at += SIZE) deltas.push(text.slice(at, at + SIZE))
const expected = JSON.parse(text)
console.log(`${text.length} units, ${deltas.length} deltas, Node ${process.version}`)
for (const [name, run] of Object.entries(entries)) {
  const times = []
  let value
  for (let round = 0; round < 5; round++) {
    const started = performance.now()
    value = await run(deltas)
    times.push(((performance.now() - started) / deltas.length) * 1e3)
  }
  times.sort((one, other) => one - other)
  console.log(`${name}: ${times[0].toFixed(2)} us a delta (median ${times[2].toFixed(2)}), right: ${isDeepStrictEqual(value, expected)}`)
}
