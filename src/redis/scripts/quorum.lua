-- A limit that a quorum group of servers decides together, by the findings of each: a call of one server,
-- which reports its news and reads the news of the others.
--
-- KEYS[1]    a hash: of each key of the limit that is not merely closed its state,
--            'PHASE NUMBER BEGAN ENDS GOOD BAD SLOW ~DOUBLINGS ID:COUNT:TIME ...': closed, with the votes of
--            servers that would open it; open; or half, with the probes that servers have. NUMBER
--            grows with each turn, in microseconds of the time where that is more; BEGAN is when it
--            was, and ENDS when all of it may be forgotten
-- KEYS[2]    the keys in the order of their turns, KEYS[3] in that of their ends
-- KEYS[4]    the ids of servers, and until when each counts as running: a lease after its last calls
-- ARGV       the server's id; numbers as below; and then what it says, each one text: a letter, four
--            numbers, the key. Tests put the time in front, in nanoseconds behind an @.
--
-- DOUBLINGS says how many probes in a row have failed; it is left out where that is none. How long a
-- server sleeps then is its business, and it asks for a probe afterwards.
--
-- Returns what is new as one text, and the time.
local call, floor, format, sub = redis.call, math.floor, string.format, string.sub
local states, turns, ends, servers = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local clock, a = call('TIME'), 1
local now = clock[1] * 1000000 + clock[2]
if sub(ARGV[1], 1, 1) == '@' then
  now, a = tonumber(sub(ARGV[1], 2, -4)), 2
end
local me = ARGV[a]
-- `hold_us`: how long a server may keep a probe that it does not use, and then wait for its end.
-- `lease_us`: how long the server counts as running after this call; 0 when it stops.
local since, is_back, quorum, sleep_us, probes, hold_us, together, failed_percent, slow_percent, lease_us,
  sleep_max_us = struct.unpack('<ddddddddddd', ARGV[a + 1])
local keys_max, news_max, tries, doublings_max = 10000, 100, 20, 63
local learn_us, forgotten_us = 60000000, 86400000000
local news, farthest = {}, 0
local last = tonumber(call('ZREVRANGE', turns, 0, 0, 'WITHSCORES')[2]) or 0

-- The lease is written only when half of it is over.
local function renew_lease()
  if lease_us == 0 then
    call('ZREM', servers, me)
  elseif tonumber(call('ZSCORE', servers, me) or 0) < now + lease_us / 2 then
    call('ZREMRANGEBYSCORE', servers, '-inf', now)
    call('ZADD', servers, format('%.0f', now + lease_us), me)
    call('PEXPIRE', servers, floor((lease_us + learn_us) / 1000))
  end
end

-- Servers of former versions have no lease; their ids have digits in front.
local function is_running(id)
  return not string.find(id, '^s') or tonumber(call('ZSCORE', servers, id) or 0) > now
end

local function tell(kind, key, number, age, count)
  news[#news + 1] = struct.pack('<BdddHc0', string.byte(kind), number, age, count, #key, key)
end

local function forget(key)
  call('HDEL', states, key)
  call('ZREM', turns, key)
  call('ZREM', ends, key)
end

-- Those that are over, some at a time.
local function forget_ended()
  for _, key in ipairs(call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, tries)) do
    forget(key)
  end
end

-- Where there is none, that of one that is closed.
local function make_room()
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
  local life = state.phase == 'closed' and math.max(learn_us, sleep_us) or sleep_max_us + forgotten_us
  local over = (state.phase == 'closed' and now or state.began) + life
  if over < now + hold_us and state.phase == 'half' then
    over = now + hold_us
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
  farthest = math.max(farthest, over)
end

local function turn(key, state, phase)
  last = math.max(last + 1, now)
  call('ZADD', turns, format('%.0f', last), key)
  local fails_again = phase == 'open' and state.phase == 'half'
  save(key, {phase = phase, number = last, began = now, good = 0, bad = 0, slow = 0,
    doublings = fails_again and math.min(state.doublings + 1, doublings_max) or 0})
end

local function tell_state(key, state)
  tell(state.phase == 'closed' and 'c' or 'o', key, state.number, now - state.began, state.phase == 'closed' and 0 or state.doublings)
end

-- Takes out those whose time is over, and those of a server; how many of either.
local function take_out(state, id)
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

-- What probes have found may end it. Whether it did.
local function judge(key, state)
  local all = state.good + state.bad
  if together == 0 and state.bad > 0 then
    turn(key, state, 'open')
  elseif all < probes then
    return false
  elseif together > 0 and (state.bad * 100 >= all * failed_percent or
      (slow_percent > 0 and state.slow * 100 >= all * slow_percent)) then
    turn(key, state, 'open')
  else
    turn(key, state, 'closed')
  end
  return true
end

-- Votes of servers that have stopped. A server that starts anew has another id, and votes again.
local function drop_stopped(state)
  for i = #state, 1, -1 do
    if not is_running(state[i].id) then
      table.remove(state, i)
    end
  end
end

local say = {}

-- Its window says that it is to open.
function say.v(key, state, number)
  if state.phase ~= 'closed' or (state.number > 0 and state.number ~= number) then
    tell_state(key, state) -- the window is of before
    return
  end
  if state.is_new and not make_room() then
    tell('x', key, 0, 0, 0)
    return
  end
  take_out(state, me)
  drop_stopped(state)
  state[#state + 1] = {id = me, count = 1, time = now + sleep_us}
  if #state >= quorum then
    turn(key, state, 'open')
  else
    save(key, state)
  end
end

-- So many requests have come after the sleep.
function say.a(key, state, number, wanted)
  local sleeps = now < state.began + sleep_us or (state.doublings > 0 and number ~= state.number)
  if state.phase == 'closed' or (state.phase == 'open' and sleeps) then
    tell_state(key, state)
    return
  end
  local lost, own = take_out(state, me)
  state.phase, state.bad = 'half', state.bad + lost
  if judge(key, state) then
    return
  end
  local given = state.good + state.bad + own
  for _, one in ipairs(state) do
    given = given + one.count
  end
  local more = math.max(0, math.min(probes - given, wanted))
  if own + more > 0 then
    state[#state + 1] = {id = me, count = own + more, time = now + hold_us}
  end
  save(key, state)
  tell('p', key, state.number, now - state.began, more)
end

-- Of its probes so many were good, bad, slow, or found nothing.
function say.r(key, state, number, good, bad, slow, freed)
  if state.phase ~= 'half' or state.number ~= number then
    return
  end
  local time = 0
  for _, one in ipairs(state) do
    time = one.id == me and math.max(time, one.time) or time
  end
  local lost, own = take_out(state, me)
  bad = math.min(bad, own)
  good = math.min(good, own - bad)
  local left = own - bad - good - math.min(freed, own - bad - good)
  state.good, state.bad, state.slow = state.good + good, state.bad + bad + lost, state.slow + slow
  if left > 0 then
    state[#state + 1] = {id = me, count = left, time = time}
  end
  if not judge(key, state) then
    save(key, state)
  end
end

-- It was reset.
function say.z(key, state)
  if state.phase ~= 'closed' then
    turn(key, state, 'closed')
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
  say[letter](key, load(key), number, one, two, three, four)
end

-- What has turned since; where Redis has lost what was, all.
if since > last then
  since = 0
end
local changed = call('ZRANGEBYSCORE', turns, '(' .. format('%.0f', since), '+inf', 'WITHSCORES', 'LIMIT', 0, news_max)
for i = 1, #changed, 2 do
  local key = changed[i]
  local state = load(key)
  if is_back > 0 and state.phase == 'half' then
    take_out(state, me) -- it knows nothing of those any more
    save(key, state)
  end
  if state.number > 0 then
    tell_state(key, state)
  end
  since = tonumber(changed[i + 1])
end
forget_ended()
tell('.', '', since, 0, #changed < 2 * news_max and 0 or 1)
for i = 1, farthest > 0 and 3 or 0 do
  if call('PTTL', KEYS[i]) * 1000 < farthest - now then
    call('PEXPIRE', KEYS[i], floor((farthest - now) / 1000) + 1)
  end
end
return {table.concat(news), now}
