-- A call: steps one after another, at one reading of the clock.
--
-- ARGV[1]    for tests: the time, in nanoseconds; else empty
-- ARGV[2]    empty: KEYS are strings that differ, and are read at once
-- then runs  a kind, how many of KEYS it takes, and what the kind wants
--
-- Returns the time in microseconds, and for each key how many requests were granted, or -1: not
-- known yet, and the value as it was before. Times are whole microseconds, and parts of one.
local call, format, sub, floor = redis.call, string.format, string.sub, math.floor
local keys, args, out, kinds = KEYS, ARGV, {}, {}
local clock = call('TIME')
local now, now_ns = clock[1] * 1000000 + clock[2], 0
local now_ms = floor(now / 1000)
if args[1] ~= '' then
  now, now_ns = tonumber(sub(args[1], 1, -4)), tonumber(sub(args[1], -3))
  now_ms = now_ms + 86400000
end
out[1] = now
local values = args[2] == '' and call('MGET', unpack(keys)) or {}

local function value(i)
  local value = values[i]
  if value == nil then
    value = call('MGET', keys[i])[1]
  end
  return value
end
