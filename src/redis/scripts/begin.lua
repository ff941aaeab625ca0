-- A call: steps one after another, at one reading of the clock.
--
-- ARGV[1]    o, or nothing: the rest is what the script's own kind wants for all KEYS, which differ
--            l: the same, but the kind reads its keys by itself
--            r: runs follow: a kind, how many of KEYS it takes, and what the kind wants
--            s: the same, and a key may be there twice, so each is read in its turn
--            for tests the time follows, in nanoseconds
--
-- What a kind wants are texts, and numbers as doubles in one text.
--
-- Returns for each key the value as it was before, none where it said nothing any more, of a bucket
-- or a window mostly its number alone; then the time in microseconds; and then the steps of which
-- not all requests were granted: where each is, and how many were; -1: it has to be tried again;
-- -2: no script can decide it. Times are whole microseconds, and parts of one. All that is one
-- array, since one within another costs Redis as much as a command.
local call, floor, unpacked = redis.call, math.floor, struct.unpack
local format, sub, byte, find = string.format, string.sub, string.byte, string.find
local keys, args, kinds = KEYS, ARGV, {}
local key_count, how, clock = #keys, byte(args[1]) or 111, call('TIME')
local now, now_ns = clock[1] * 1000000 + clock[2], 0
local now_ms = floor(now / 1000)
if #args[1] > 1 then
  now, now_ns = tonumber(sub(args[1], 2, -4)), tonumber(sub(args[1], -3))
  now_ms = floor(now / 1000) + 3155760000000 -- keys outlive the test
end
local ahead = how ~= 115 and how ~= 108
local values = ahead and call('MGET', unpack(keys)) or {}
local last = key_count + 1 -- of what is returned
values[last] = now

-- A value of any other type is none.
local function read(i)
  local value = call('MGET', keys[i])[1]
  values[i] = value
  return value
end

local function note(i, granted)
  values[last + 1], values[last + 2] = i, granted
  last = last + 2
end
