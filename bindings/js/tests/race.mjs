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
  // It emits each value with its parent, and not the document's value: an open string is not in its parent.
  entries['@streamparser/json'] = (deltas) => {
    let value
    const parser = new streamparser.JSONParser({ emitPartialValues: true, emitPartialTokens: true })
    parser.onValue = ({ value: own, stack }) => (value = stack.length > 1 ? stack[1].value : own)
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
    try {
      for await (value of jsonriver.parse(stream));
    } catch {
      // A text that is cut off is an error at its end.
    }
    return value
  }
}

const text = document(Number(process.argv[2] ?? 50))
const deltas = []
for (let at = 0; at < text.length; at += SIZE) deltas.push(text.slice(at, at + SIZE))
// The value is one for users only if it has the received part of an open string.
const cut = deltas.slice(0, Math.ceil((text.indexOf('rose slowly', text.length / 2) + 4) / SIZE))
const right = [loads(cut.join(''), { partial: true }), JSON.parse(text)]
console.log(`${text.length} units, ${deltas.length} deltas, Node ${process.version}`)
for (const [name, run] of Object.entries(entries)) {
  const times = []
  const values = [await run(cut)]
  for (let round = 0; round < 9 && times.every((time) => time < 100); round++) {
    const started = performance.now()
    values[1] = await run(deltas)
    times.push(((performance.now() - started) / deltas.length) * 1e3)
  }
  times.sort((one, other) => one - other)
  const [isLive, isRight] = values.map((value, at) => isDeepStrictEqual(value, right[at]))
  const median = times[times.length >> 1]
  console.log(`${name}: ${times[0].toFixed(2)} us a delta (median ${median.toFixed(2)}), partial value right: ${isLive}, last: ${isRight}`)
}
