//! The scripts. The server runs each script as one atomic step. Keys: the log, the record of the
//! answer, and the lease.

/// Precedes each script. `gone` returns why an answer has no log. `remember` keeps the record of an
/// answer, and its names, for longer than the answer itself, so that an expired answer differs from
/// an unknown one.
pub(super) const COMMON: &str = "
local function gone()
    return redis.call('EXISTS', KEYS[2]) == 1 and 'expired' or 'unknown'
end
local function remember(keep)
    local time = keep * 2 + 60000
    redis.call('PEXPIRE', KEYS[2], time)
    local names = redis.call('HGET', KEYS[2], 'names') or ''
    for name in string.gmatch(names, '%S+') do redis.call('PEXPIRE', name, time) end
end";

pub(super) const OPEN: &str = "
redis.call('HSET', KEYS[2], 'caller', ARGV[1], 'keep', ARGV[2], 'request', ARGV[3], 'epoch', 1)
remember(ARGV[2])
redis.call('XADD', KEYS[1], '1-0', 'f', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SET', KEYS[3], ARGV[4], 'PX', ARGV[5])
return 'ok'";
pub(super) const APPEND: &str = "
for i = 1, #ARGV, 2 do
    if not redis.call('XADD', KEYS[1], 'NOMKSTREAM', ARGV[i], 'd', ARGV[i + 1]) then return gone() end
end
return 'ok'";
pub(super) const TRIM: &str = "
redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1])
redis.call('HSET', KEYS[2], 'dropped', ARGV[2])
return 'ok'";
pub(super) const CLOSE: &str = "
if not redis.call('XADD', KEYS[1], 'NOMKSTREAM', ARGV[1], 'e', ARGV[2]) then return gone() end
if redis.call('GET', KEYS[3]) == ARGV[3] then redis.call('DEL', KEYS[3]) end
redis.call('HDEL', KEYS[2], 'request')
redis.call('PEXPIRE', KEYS[1], redis.call('HGET', KEYS[2], 'keep'))
return 'ok'";
pub(super) const READ: &str = "
local keep = redis.call('HGET', KEYS[2], 'keep')
if not keep then return 'unknown' end
if redis.call('PEXPIRE', KEYS[1], keep) == 0 then return 'expired' end
remember(keep)
local rows = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
return {rows, redis.call('HGET', KEYS[2], 'dropped'), redis.call('EXISTS', KEYS[3])}";
pub(super) const HAS: &str = "
if redis.call('EXISTS', KEYS[1]) == 0 then return gone() end
local has = #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])
return {has, redis.call('HGET', KEYS[2], 'dropped')}";
/// Renews an answer as a read does. An answer that is gone stays gone.
pub(super) const KEEP: &str = "
local keep = redis.call('HGET', KEYS[2], 'keep')
if keep and redis.call('PEXPIRE', KEYS[1], keep) == 1 then remember(keep) end
return 'ok'";
/// Adds an answer to a name. Removes answers from the name that are gone and forgotten: of a few,
/// so that a name with many answers takes no longer, and does not grow for ever.
pub(super) const NAME: &str = "
local meta = redis.call('HMGET', KEYS[2], 'keep', 'names')
if not meta[1] then return 'unknown' end
for _, id in ipairs(redis.call('SRANDMEMBER', ARGV[1], 16)) do
    if redis.call('EXISTS', 'restitch:{' .. id .. '}:meta') == 0 then redis.call('SREM', ARGV[1], id) end
end
redis.call('SADD', ARGV[1], ARGV[2])
redis.call('HSET', KEYS[2], 'names', (meta[2] or '') .. ' ' .. ARGV[1])
remember(meta[1])
return 'ok'";
/// Leaves out the request, which may be large.
pub(super) const LOOK_UP: &str = "
local meta = redis.call('HMGET', KEYS[2], 'caller', 'keep', 'gone')
if not meta[1] then return 'unknown' end
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 2)
return {meta[1], meta[2], meta[3], last, redis.call('EXISTS', KEYS[3])}";
/// Drops the events, and remembers the limit. An epoch that is not empty has to be that of the
/// answer.
pub(super) const DROP: &str = "
local meta = redis.call('HMGET', KEYS[2], 'keep', 'epoch')
if not meta[1] then return 'unknown' end
if ARGV[2] ~= '' and meta[2] ~= ARGV[2] then return 'fenced' end
redis.call('DEL', KEYS[1], KEYS[3])
redis.call('HDEL', KEYS[2], 'request')
redis.call('HSET', KEYS[2], 'gone', ARGV[1])
remember(meta[1])
return 'ok'";
pub(super) const RENEW: &str = "
if redis.call('EXISTS', KEYS[1]) == 0 then return gone() end
if redis.call('HGET', KEYS[2], 'epoch') ~= ARGV[1] then return 'fenced' end
redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])
return 'ok'";
/// The lease, the epoch and the entry that fences all others off are one step. An answer may have
/// ended since the last look.
pub(super) const TAKE_OVER: &str = "
if redis.call('EXISTS', KEYS[1]) == 0 then return gone() end
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if last and last[2][1] == 'e' then return false end
if not redis.call('SET', KEYS[3], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
local epoch = redis.call('HINCRBY', KEYS[2], 'epoch', 1)
redis.call('XADD', KEYS[1], epoch .. '-0', 'f', ARGV[1])
local meta = redis.call('HMGET', KEYS[2], 'keep', 'request')
return {epoch, meta[1], meta[2]}";
pub(super) const DELETE: &str = "
if redis.call('DEL', KEYS[1], KEYS[2], KEYS[3]) == 0 then return 'unknown' end
return 'ok'";
