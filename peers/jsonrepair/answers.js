// Reads {"texts": [...], "timed": [...]} on stdin. Prints {"answers": [...], "seconds": [...]}: the repaired texts, null where
// jsonrepair throws, and the median of three runs for each timed text.

import {readFileSync} from 'node:fs';
import {jsonrepair} from 'jsonrepair';

function repaired(text) {
  try {
    return jsonrepair(text);
  } catch {
    return null;
  }
}

function seconds(text) {
  const start = process.hrtime.bigint();
  repaired(text);
  return Number(process.hrtime.bigint() - start) / 1e9;
}

const {texts, timed} = JSON.parse(readFileSync(0, 'utf8'));
const times = timed.map((text) => [1, 2, 3].map(() => seconds(text)).sort((a, b) => a - b)[1]);
process.stdout.write(JSON.stringify({answers: texts.map(repaired), seconds: times}));
