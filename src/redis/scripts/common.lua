-- Decides commands that need only the value as a whole: reads, resets and swaps.

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

-- A server whose swap came too late reserves the key: no other server writes it until that one has, or
-- until the reservation ends. Servers that try meanwhile join a queue. After the value stand the end of
-- the reservation and the queue, whose first server has the key: |1767225605210000 4711 815
--
-- Without a queue, the former end of a converted state may stand there, in nanoseconds.

-- Returns the value, the end of the reservation, and the queue; an empty queue if the key is not
-- reserved.
local function read_queue(value)
  local state, ends, queue = string.match(value or '', '^([^|]*)|(%d+)([ %d]*)$')
  if not state then
    return value or '', '', ''
  end
  return state, ends, tonumber(ends) > now and queue or ''
end

-- Replaces a value by state and queue. The state lives for so many ms, or as long as it did. A
-- reservation outlives the state.
local function write_queue(i, old, state, ends, queue, life)
  local left = 0
  if queue ~= '' then
    state, left = string.match(state, '^[^|]*') .. '|' .. ends .. queue, floor((ends - now) / 1000) + 1
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

-- Replaces the value args[a] by args[a + 1], for args[a + 2] ms; an empty text means no value. args[a +
-- 3] is the server's number in the queue, args[a + 4] the longest reservation in us. If nothing was
-- replaced, returns -1 if the value is another, or -3 if the key is reserved for another server.
local function swap(a, i, dry, waits)
  local old = read(i)
  local state, ends, queue = read_queue(old)
  local me, first = ' ' .. args[a + 3], string.match(queue, '^ %d+')
  local next_ends = format('%d', now + args[a + 4])
  waits = waits and me ~= ' 0' and not dry
  if first and first ~= me then
    if waits and not find(queue .. ' ', me .. ' ', 1, true) and #queue < 300 then
      write_queue(i, old, state, ends, queue .. me)
    end
    return -3
  elseif state ~= args[a] then
    if waits and not first then
      write_queue(i, old, state, next_ends, me)
    end
    return -1
  elseif not dry then
    queue = sub(queue, #me + 1)
    write_queue(i, old, args[a + 1], next_ends, queue, args[a + 2])
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

-- Removes the server args[a] from the queue, and reads the value.
function kinds.leave(a, i)
  local old = read(i)
  local state, ends, queue = read_queue(old)
  local before, after = find(queue .. ' ', ' ' .. args[a] .. ' ', 1, true)
  if before then
    if before == 1 then
      ends = format('%d', now + args[a + 1])
    end
    write_queue(i, old, state, ends, sub(queue, 1, before - 1) .. sub(queue, after))
  end
  note(i, -1)
  return a + 2, false
end

-- A swap before another command on this key. With a lifetime of 0 the new value is only supposed,
-- because the command only reads.
function kinds.first(a, i, last, dry)
  if args[a + 2] ~= '0' then
    swap(a, i, false, false)
    values[i] = nil
  elseif read_queue(read(i)) == args[a] then
    values[i] = args[a + 1]
  end
  return kinds[args[a + 5]](a + 7, i, i, dry)
end
