-- Chunks: units of a bucket or a window that servers hold, to grant them by themselves.
--
-- Behind the state of a key stands an entry for each server that holds some:
--
--     ;ID:HELD:USED:NUMBER:END
--
-- HELD units are reserved. USED is how many units the server has granted from all of its chunks so far,
-- so a server that has not read a reply just says it again. NUMBER is that of the server's newest step:
-- an older one that comes late says nothing. At END, in microseconds, the units count as used; at 0
-- they last as long as the window. The state says only what was used.

local CHUNKS_MAX = 64

-- The values as they are at Redis: values[] are what C is to read.
local raws = {}

local function raw_of(i)
  if raws[i] == nil then
    raws[i] = VALUE(i)
  end
  return raws[i]
end

-- Reads an entry's parts of what stands behind a state, as a server sees it: the entries of others,
-- how many these are, and what they hold; whether its own says something newer; what it has held and how
-- much of that it has used; units whose time is over, and the last of these times; the line of servers
-- that wait for a swap.
local function read_chunks(tail, id, number, used)
  local others, count, held, is_old, mine, spent, ended, ended_at = '', 0, 0, 0, 0, 0, 0, 0
  for entry, who, has, has_used, newest, ends in
    string.gmatch(tail, '(;(%d+):(%d+):(%d+):(%d+):(%d+))') do
    has, ends = tonumber(has), tonumber(ends)
    local own = tonumber(who) == id
    is_old = own and number < tonumber(newest) and 1 or is_old
    if ends > 0 and ends <= now then
      ended, ended_at = ended + has, math.max(ended_at, ends)
    elseif own and number >= tonumber(newest) then
      mine, spent = has, math.max(0, math.min(has, used - tonumber(has_used)))
    else
      others, count, held = others .. entry, count + 1, held + has
    end
  end
  return others, count, held, is_old, mine, spent, ended, ended_at, string.match(tail, '|.*$') or ''
end

local function write_chunk(id, held, used, number, ends)
  if held == 0 then
    return ''
  end
  return format(';%015d:%d:%d:%d:%d', id, held, used, number, ends)
end

-- Whether servers hold units, or wait for a swap.
local function has_tail(value)
  return value and find(value, '[;|]')
end

-- Puts a value in the place of the one that is there, empty for none. It lives until then. A question with
-- nothing to settle writes nothing.
local function put_chunks(i, op, old, value, life)
  if op == 1 and not has_tail(old) and not has_tail(value) then
    return
  end
  if value == '' then
    if old then
      call('DEL', keys[i])
    end
  elseif value ~= old then
    call('SET', keys[i], value, 'PXAT', EXPIRY(life))
  end
  raws[i] = value ~= '' and value
end
