-- Decides the phase of each key of a limit for a quorum group of servers: one call applies the findings
-- of one server, and returns the phase changes that it has not read yet.
--
-- KEYS[1]    a hash with the state of each key that is not merely closed: 'PHASE NUMBER BEGAN ENDS GOOD
--            BAD SLOW ~DOUBLINGS ID:COUNT:TIME ...'
-- KEYS[2]    the keys in the order of their phase changes
-- KEYS[3]    the keys in the order of their ends
-- KEYS[4]    the ids of servers, each with the end of its lease, until which it counts as running
-- ARGV       the server's id; numbers as below; then the server's findings, each one text: a letter,
--            four numbers, the key. Tests put the time in front, in nanoseconds after an @.
--
-- PHASE is closed, with the votes of servers to open it; open; or half, with the probes that servers
-- have. NUMBER grows with each phase change, and is at least the time in microseconds. BEGAN is the
-- time of the phase change, and ENDS that at which the state may be forgotten. DOUBLINGS is the number
-- of consecutive failed probes; it is omitted if there are none. Each server computes by itself how
-- long it sleeps then, and requests a probe afterwards.
--
-- Returns the events for the server as one text, and the time.
local call, floor, format, sub = redis.call, math.floor, string.format, string.sub
local states, changes, ends, servers = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local clock, a = call('TIME'), 1
local now = clock[1] * 1000000 + clock[2]
if sub(ARGV[1], 1, 1) == '@' then
  now, a = tonumber(sub(ARGV[1], 2, -4)), 2
end
local me = ARGV[a]
-- `probe_us` is how long a server may have a probe before it uses it, and again until the probe ends.
-- `lease_us` is how long the server counts as running after this call; 0 if it stops.
local since, rejoining, quorum, sleep_us, probes, probe_us, together, failed_percent, slow_percent, lease_us,
  sleep_max_us = struct.unpack('<ddddddddddd', ARGV[a + 1])
local keys_max, events_max, tries, doublings_max = 10000, 100, 20, 63
local vote_life_us, open_life_us = 60000000, 86400000000
local events, last_end = {}, 0
local last = tonumber(call('ZREVRANGE', changes, 0, 0, 'WITHSCORES')[2]) or 0

-- Renews the lease, after half of it is over.
local function renew_lease()
  if lease_us == 0 then
    call('ZREM', servers, me)
  elseif tonumber(call('ZSCORE', servers, me) or 0) < now + lease_us / 2 then
    call('ZREMRANGEBYSCORE', servers, '-inf', now)
    call('ZADD', servers, format('%.0f', now + lease_us), me)
    call('PEXPIRE', servers, floor((lease_us + vote_life_us) / 1000))
  end
end

-- Servers of former versions have no lease; their ids begin with a digit.
local function is_running(id)
  return not string.find(id, '^s') or tonumber(call('ZSCORE', servers, id) or 0) > now
end

local function report(kind, key, number, age, count)
  events[#events + 1] = struct.pack('<BdddHc0', string.byte(kind), number, age, count, #key, key)
end

local function forget(key)
  call('HDEL', states, key)
  call('ZREM', changes, key)
  call('ZREM', ends, key)
end

-- Forgets states that have ended, a few at a time.
local function forget_ended()
  for _, key in ipairs(call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, tries)) do
    forget(key)
  end
end

-- Makes sure that a key may be added, if necessary in place of a closed one. False if that is
-- impossible.
local function reserve_entry()
  forget_ended()
  if call('HLEN', states) < keys_max then
    return true
  end
  for _, key in ipairs(call('ZRANGE', ends, 0, tries)) do
    if sub(call('HGET', states, key) or '', 1, 7) == 'closed ' then
      forget(key)
      return true
    end
  end
  return false
end

local function load(key)
  local text = call('HGET', states, key)
  local phase, number, began, over, good, bad, slow, rest =
    string.match(text or '', '^(%l+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  local state = {phase = 'closed', number = 0, began = now, good = 0, bad = 0, slow = 0, doublings = 0,
    is_new = not text}
  if not phase or tonumber(over) <= now then
    return state
  end
  state.phase, state.number, state.began = phase, tonumber(number), tonumber(began)
  state.good, state.bad, state.slow = tonumber(good), tonumber(bad), tonumber(slow)
  state.doublings = tonumber(string.match(rest, ' ~(%d+)') or 0)
  for id, count, time in string.gmatch(rest, ' (%w+):(%d+):(%d+)') do
    state[#state + 1] = {id = id, count = tonumber(count), time = tonumber(time)}
  end
  return state
end

local function save(key, state)
  local life = state.phase == 'closed' and math.max(vote_life_us, sleep_us) or sleep_max_us + open_life_us
  local over = (state.phase == 'closed' and now or state.began) + life
  if over < now + probe_us and state.phase == 'half' then
    over = now + probe_us
  end
  local words = {format('%s %.0f %.0f %.0f %d %d %d', state.phase, state.number, state.began, over, state.good,
    state.bad, state.slow)}
  if state.doublings > 0 then
    words[2] = format('~%d', state.doublings)
  end
  for _, one in ipairs(state) do
    words[#words + 1] = format('%s:%d:%.0f', one.id, one.count, one.time)
  end
  call('HSET', states, key, table.concat(words, ' '))
  call('ZADD', ends, format('%.0f', over), key)
  last_end = math.max(last_end, over)
end

local function change_phase(key, state, phase)
  last = math.max(last + 1, now)
  call('ZADD', changes, format('%.0f', last), key)
  local fails_again = phase == 'open' and state.phase == 'half'
  save(key, {phase = phase, number = last, began = now, good = 0, bad = 0, slow = 0,
    doublings = fails_again and math.min(state.doublings + 1, doublings_max) or 0})
end

local function report_state(key, state)
  report(state.phase == 'closed' and 'c' or 'o', key, state.number, now - state.began, state.phase == 'closed' and 0 or state.doublings)
end

-- Removes the probes or votes whose time is over, and those of a server; returns how many of either.
local function remove_shares(state, id)
  local lost, own, kept = 0, 0, 0
  for i = 1, #state do
    local one = state[i]
    state[i] = nil
    if one.time <= now then
      lost = lost + one.count
    elseif one.id == id then
      own = own + one.count
    else
      kept = kept + 1
      state[kept] = one
    end
  end
  return lost, own
end

-- Ends the half-open phase if the outcomes of its probes decide that. Whether they did.
local function decide_phase(key, state)
  local all = state.good + state.bad
  if together == 0 and state.bad > 0 then
    change_phase(key, state, 'open')
  elseif all < probes then
    return false
  elseif together > 0 and (state.bad * 100 >= all * failed_percent or
      (slow_percent > 0 and state.slow * 100 >= all * slow_percent)) then
    change_phase(key, state, 'open')
  else
    change_phase(key, state, 'closed')
  end
  return true
end

-- Removes votes of servers that have stopped. A server that restarts has another id, and votes again.
local function drop_stopped(state)
  for i = #state, 1, -1 do
    if not is_running(state[i].id) then
      table.remove(state, i)
    end
  end
end

local apply = {}

-- A vote to open: the window of the server has failed.
function apply.v(key, state, number)
  if state.phase ~= 'closed' or (state.number > 0 and state.number ~= number) then
    report_state(key, state) -- the window is of before
    return
  end
  if state.is_new and not reserve_entry() then
    report('x', key, 0, 0, 0)
    return
  end
  remove_shares(state, me)
  drop_stopped(state)
  state[#state + 1] = {id = me, count = 1, time = now + sleep_us}
  if #state >= quorum then
    change_phase(key, state, 'open')
  else
    save(key, state)
  end
end

-- A request for probes: so many requests have come after the sleep.
function apply.a(key, state, number, wanted)
  local sleeps = now < state.began + sleep_us or (state.doublings > 0 and number ~= state.number)
  if state.phase == 'closed' or (state.phase == 'open' and sleeps) then
    report_state(key, state)
    return
  end
  local lost, own = remove_shares(state, me)
  state.phase, state.bad = 'half', state.bad + lost
  if decide_phase(key, state) then
    return
  end
  local given = state.good + state.bad + own
  for _, one in ipairs(state) do
    given = given + one.count
  end
  local more = math.max(0, math.min(probes - given, wanted))
  if own + more > 0 then
    state[#state + 1] = {id = me, count = own + more, time = now + probe_us}
  end
  save(key, state)
  report('p', key, state.number, now - state.began, more)
end

-- Outcomes of the server's probes: good, bad, slow, or released without an outcome.
function apply.r(key, state, number, good, bad, slow, freed)
  if state.phase ~= 'half' or state.number ~= number then
    return
  end
  local time = 0
  for _, one in ipairs(state) do
    time = one.id == me and math.max(time, one.time) or time
  end
  local lost, own = remove_shares(state, me)
  bad = math.min(bad, own)
  good = math.min(good, own - bad)
  local left = own - bad - good - math.min(freed, own - bad - good)
  state.good, state.bad, state.slow = state.good + good, state.bad + bad + lost, state.slow + slow
  if left > 0 then
    state[#state + 1] = {id = me, count = left, time = time}
  end
  if not decide_phase(key, state) then
    save(key, state)
  end
end

-- A reset of the key.
function apply.z(key, state)
  if state.phase ~= 'closed' then
    change_phase(key, state, 'closed')
  elseif not state.is_new then
    save(key, {phase = 'closed', number = state.number, began = state.began, good = 0, bad = 0, slow = 0,
      doublings = 0})
  end
end

if quorum > 1 then
  renew_lease()
end
for i = a + 2, #ARGV do
  local letter, number, one, two, three, four, at = struct.unpack('<c1ddddd', ARGV[i])
  local key = sub(ARGV[i], at)
  apply[letter](key, load(key), number, one, two, three, four)
end

-- Reports the phase changes since the server's last call; all, if Redis has lost its data.
if since > last then
  since = 0
end
local changed = call('ZRANGEBYSCORE', changes, '(' .. format('%.0f', since), '+inf', 'WITHSCORES', 'LIMIT', 0, events_max)
for i = 1, #changed, 2 do
  local key = changed[i]
  local state = load(key)
  if rejoining > 0 and state.phase == 'half' then
    remove_shares(state, me) -- it knows nothing of those any more
    save(key, state)
  end
  if state.number > 0 then
    report_state(key, state)
  end
  since = tonumber(changed[i + 1])
end
forget_ended()
report('.', '', since, 0, #changed < 2 * events_max and 0 or 1)
for i = 1, last_end > 0 and 3 or 0 do
  if call('PTTL', KEYS[i]) * 1000 < last_end - now then
    call('PEXPIRE', KEYS[i], floor((last_end - now) / 1000) + 1)
  end
end
return {table.concat(events), now}
