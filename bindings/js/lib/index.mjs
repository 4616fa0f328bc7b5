// The same objects as for `require`: an error of one is an error of the other.
import restitch from './index.cjs'

export const { JSONError, LiveValue, complete, liveValues, loads, repair, restitchMiddleware } = restitch
const wrap = restitch.restitch
export { wrap as restitch }
