-- A call: steps one after another, at one reading of the clock.
--
-- Most calls have steps alike: their script is this, alone.lua and one kind. Others have runs of
-- steps, of one kind or of any: theirs is this, runs.lua, the kinds and end.lua.
--
-- ARGV       what the kind wants; or runs. Tests put the time in front, in nanoseconds behind an @.
--            A place of its own would cost each call as much as an argument does.
--
-- What a kind wants are texts, and numbers as doubles in one text.
--
-- Returns for each key the value as it was before, none where it said nothing any more, of a bucket
-- or a window mostly its number alone; then the time in microseconds; and then the steps of which
-- not all requests were granted: where each is, and how many were; -1: it has to be tried again;
-- -2: no script can decide it; -4: servers hold chunks of it, of which other scripts know. Times are whole microseconds, and parts of one. All that is one
-- array, since one within another costs Redis as much as a command.
--
-- A call of buckets or of windows alone, of which all is granted, returns less: the numbers of its
-- keys and the time, as doubles in one text.
local call, floor, unpacked = redis.call, math.floor, struct.unpack
local format, sub, byte, find = string.format, string.sub, string.byte, string.find
local keys, args, clock, values = KEYS, ARGV, call('TIME'), nil
local key_count, now, now_ns = #keys, clock[1] * 1000000 + clock[2], 0
local now_ms, a, noted = (now - now % 1000) / 1000, 1, key_count + 1
if byte(args[1]) == 64 then
  now, now_ns, a = tonumber(sub(args[1], 2, -4)), tonumber(sub(args[1], -3)), 2
  now_ms = floor(now / 1000) + 3155760000000 -- keys outlive the test
end
