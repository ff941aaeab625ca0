-- Begins the script of a call: reads the clock. A call carries out commands one after another, at one
-- reading of the clock.
--
-- The script of a call whose commands are one run of one kind is this file, alone.lua and the kind.
-- Other calls have runs of commands, of one kind or of any: this file, runs.lua, the kinds and end.lua.
--
-- ARGV       the arguments of the kind; or runs. Tests put the time in front, in nanoseconds after an
--            @. An argument of its own for it would cost each call as much as any argument.
--
-- The arguments of a kind are texts, and numbers as doubles in one text.
--
-- Returns for each key the value as it was before; none if it had no meaning any more; of a bucket or a
-- window mostly only its number. Then the time in microseconds. Then a pair for each command of which
-- not all requests were granted: its position, and how many were granted; -1 if it has to be tried
-- again; -2 if no script can decide it; -4 if servers hold chunks of the key, which other scripts
-- handle. All that is one array, because an array within another costs Redis as much as a command.
--
-- A call of only buckets or only windows of which all is granted returns less: the numbers of its keys
-- and the time, as doubles in one text.
local call, floor, unpacked = redis.call, math.floor, struct.unpack
local format, sub, byte, find = string.format, string.sub, string.byte, string.find
local keys, args, clock, values = KEYS, ARGV, call('TIME'), nil
local key_count, now, now_ns = #keys, clock[1] * 1000000 + clock[2], 0
local now_ms, a, noted = (now - now % 1000) / 1000, 1, key_count + 1
if byte(args[1]) == 64 then
  now, now_ns, a = tonumber(sub(args[1], 2, -4)), tonumber(sub(args[1], -3)), 2
  now_ms = floor(now / 1000) + 3155760000000 -- keys outlive the test
end
