// Reads a JSON array of deltas on stdin, has jsonriver make a live value of them, and prints how many nanoseconds a
// delta took: the second of two runs, so that the code is warm. Of the clock and the process's own time it is the
// lesser: other processes take from the one, and node's own threads add to the other.

import {readFileSync} from 'node:fs';
import {parse} from 'jsonriver';

const deltas = JSON.parse(readFileSync(0, 'utf8'));

async function* stream() {
  yield* deltas;
}

async function run() {
  const clock = process.hrtime.bigint();
  const own = process.cpuUsage();
  let value;
  for await (const next of parse(stream())) value = next;
  const {user, system} = process.cpuUsage(own);
  const took = Math.min(Number(process.hrtime.bigint() - clock), (user + system) * 1000);
  return [took / deltas.length, value];
}

await run();
const [took, value] = await run();
if (JSON.stringify(value) !== JSON.stringify(JSON.parse(deltas.join('')))) throw new Error('another value');
console.log(took);
