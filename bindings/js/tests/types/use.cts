// The declarations with `require`. It is compiled, not run.

import OpenAI = require('openai')
import restitch = require('restitch')

const value: unknown = restitch.loads('[1')
export const used = [new OpenAI.OpenAI({ fetch: restitch.restitch() }), value]
