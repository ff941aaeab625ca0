-- Passes reports on permits from the servers that received them to the server that issued the permits.
--
-- KEYS[1]    a list of reports, the oldest first; the other keys are not used
-- ARGV       the lifetime in milliseconds, as a number; and the report to add, or none: then the oldest
--            reports are removed and returned. Tests put the time in front, after an @.
--
-- A list has the newest 10,000 reports at most. Returns the reports as one text, and the time.
local call, a = redis.call, 1
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
if string.sub(ARGV[1], 1, 1) == '@' then
  now, a = tonumber(string.sub(ARGV[1], 2, -4)), 2
end
local reports, out, reports_max, taken_max = KEYS[1], {}, 10000, 100
local report = ARGV[a + 1]
if report then
  call('RPUSH', reports, report)
  call('LTRIM', reports, -reports_max, -1)
  local life_ms = math.floor(struct.unpack('<d', ARGV[a]))
  if call('PTTL', reports) < life_ms then
    call('PEXPIRE', reports, life_ms)
  end
  return {'', now}
end
for i, one in ipairs(call('LRANGE', reports, 0, taken_max - 1)) do
  out[i] = struct.pack('<Hc0', #one, one)
end
if #out > 0 then
  call('LTRIM', reports, #out, -1)
end
return {table.concat(out), now}
