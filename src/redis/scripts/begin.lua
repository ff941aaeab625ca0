-- A call: steps one after another, at one reading of the clock.
--
-- ARGV[1]    for tests: the time, in nanoseconds; else empty
-- ARGV[2]    empty: KEYS are strings that differ, and are read at once
-- then runs  a kind, how many of KEYS it takes, and what the kind wants
--
-- Returns the time in microseconds; for each key the value as it was before, none where it said
-- nothing any more, of a bucket mostly its time alone; and the steps of which not all requests were granted: where each is, and how
-- many were; -1: it has to be tried again; -2: no script can decide it. Times are whole microseconds, and parts of one.
local call, floor = redis.call, math.floor
local format, sub, byte, gmatch = string.format, string.sub, string.byte, string.gmatch
local keys, args, kinds = KEYS, ARGV, {}
local clock = call('TIME')
local now, now_ns = clock[1] * 1000000 + clock[2], 0
local now_ms = floor(now / 1000)
if args[1] ~= '' then
  now, now_ns = tonumber(sub(args[1], 1, -4)), tonumber(sub(args[1], -3))
  now_ms = floor(now / 1000) + 3155760000000 -- keys outlive the test
end
local ahead = args[2] == ''
local values = ahead and call('MGET', unpack(keys)) or {}
local odd, odds = {}, 0

-- A value of any other type is none.
local function read(i)
  local value = call('MGET', keys[i])[1]
  values[i] = value
  return value
end

local function note(i, granted)
  odd[odds + 1], odd[odds + 2] = i, granted
  odds = odds + 2
end
