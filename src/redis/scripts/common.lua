-- What needs no more than the value as a whole.

local function read_all(first, last)
  for i = first, last do
    if values[i] == nil then
      read(i)
    end
  end
end

function kinds.pass(a, first, last)
  read_all(first, last)
  return a, true
end

function kinds.read(a, first, last)
  read_all(first, last)
  for i = first, last do
    note(i, -1)
  end
  return a, false
end

function kinds.reset(a, first, last, dry)
  for i = first, last do
    read_all(i, i) -- a key may come twice
    if values[i] and find(values[i], ';', 1, true) then
      note(i, -4) -- there are chunks
    elseif not dry then
      call('DEL', keys[i])
    end
  end
  return a, true
end

-- A server whose swap came too late has the next turn: no other writes the key until it has, or until
-- its time is over. Those that ask meanwhile stand in line. Behind the value is until when the first
-- of the line has its turn, and the line: |1767225605210000 4711 815
-- Without a line there may be the end that a state had before it was converted, in nanoseconds.

-- The value, when the turn ends, and the line; empty if it is nobody's turn.
local function turn_of(value)
  local state, ends, line = string.match(value or '', '^([^|]*)|(%d+)([ %d]*)$')
  if not state then
    return value or '', '', ''
  end
  return state, ends, tonumber(ends) > now and line or ''
end

-- Puts state and line in the place of a value; the state lives for so many ms, or as long as it did.
-- A turn does not end with the life of a state.
local function put_turn(i, old, state, ends, line, life)
  local left = 0
  if line ~= '' then
    state, left = string.match(state, '^[^|]*') .. '|' .. ends .. line, floor((ends - now) / 1000) + 1
  end
  life = life or old and call('PTTL', keys[i]) >= left and 'KEEPTTL'
  if state == '' then
    call('DEL', keys[i])
  elseif life == 'KEEPTTL' then
    call('SET', keys[i], state, life)
  else
    call('SET', keys[i], state, 'PXAT', format('%d', now_ms + math.max(tonumber(life) or 0, left)))
  end
end

-- Puts args[a + 1] in the place of args[a], for args[a + 2] ms; empty: of none, and none. By whom, and
-- how long its turn would be in us, is args[a + 3] and [a + 4]. What it is if not done: -1: the value
-- is another; -3: it is another's turn.
local function swap(a, i, dry, waits)
  local old = read(i)
  local state, ends, line = turn_of(old)
  local me, first = ' ' .. args[a + 3], string.match(line, '^ %d+')
  local next_ends = format('%d', now + args[a + 4])
  waits = waits and me ~= ' 0' and not dry
  if first and first ~= me then
    if waits and not find(line .. ' ', me .. ' ', 1, true) and #line < 300 then
      put_turn(i, old, state, ends, line .. me)
    end
    return -3
  elseif state ~= args[a] then
    if waits and not first then
      put_turn(i, old, state, next_ends, me)
    end
    return -1
  elseif not dry then
    line = sub(line, #me + 1)
    put_turn(i, old, args[a + 1], next_ends, line, args[a + 2])
  end
  return 1
end

function kinds.swap(a, i, last, dry)
  local done = swap(a, i, dry, true)
  if done < 0 then
    note(i, done)
  end
  return a + 5, done > 0
end

-- Ends the turn of args[a], or its place in the line, and reads.
function kinds.leave(a, i)
  local old = read(i)
  local state, ends, line = turn_of(old)
  local before, after = find(line .. ' ', ' ' .. args[a] .. ' ', 1, true)
  if before then
    if before == 1 then
      ends = format('%d', now + args[a + 1])
    end
    put_turn(i, old, state, ends, sub(line, 1, before - 1) .. sub(line, after))
  end
  note(i, -1)
  return a + 2, false
end

-- A swap before another step on this key. With a life of 0 it is only supposed: the step is a question.
function kinds.first(a, i, last, dry)
  if args[a + 2] ~= '0' then
    swap(a, i, false, false)
    values[i] = nil
  elseif turn_of(read(i)) == args[a] then
    values[i] = args[a + 1]
  end
  return kinds[args[a + 5]](a + 7, i, i, dry)
end
