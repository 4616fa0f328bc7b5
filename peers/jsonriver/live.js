// Reads a JSON array of deltas on stdin, has jsonriver make a live value of them, and prints how many nanoseconds a
// delta took: the second of two runs, so that the code is warm.

import {readFileSync} from 'node:fs';
import {parse} from 'jsonriver';

const deltas = JSON.parse(readFileSync(0, 'utf8'));

async function* stream() {
  yield* deltas;
}

async function run() {
  const start = process.hrtime.bigint();
  let value;
  for await (const next of parse(stream())) value = next;
  const took = Number(process.hrtime.bigint() - start);
  return [took / deltas.length, value];
}

await run();
const [took, value] = await run();
if (JSON.stringify(value) !== JSON.stringify(JSON.parse(deltas.join('')))) throw new Error('another value');
console.log(took);
