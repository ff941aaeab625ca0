-- Settles chunks: units of a bucket or a window that servers hold, to grant them without asking Redis.
--
-- After the state of a key stands an entry for each server that holds units:
--
--     ;ID:HELD:USED:NUMBER:END
--
-- HELD units are reserved. USED is the number of units that the server has granted from all of its
-- chunks so far, so a server that has not read a reply just reports it again. NUMBER counts the
-- server's settlements: an older one that comes late changes nothing. At END, in microseconds, the held
-- units count as used; 0 means that they last as long as the window. The state has only the used units.

local CHUNKS_MAX = 64

-- The values as they are at Redis; values[] are those that C is to read.
local raws = {}

local function raw_of(i)
  if raws[i] == nil then
    raws[i] = VALUE(i)
  end
  return raws[i]
end

-- Reads the suffix of a state for one server: the entries of others, their number and their units; 1 if
-- the server's settlement is older than its entry; the units that it held, and those of them that it
-- has used; the units of expired entries, and the last expiry; the queue for a swap.
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

-- Whether the value has entries or a queue.
local function has_tail(value)
  return value and find(value, '[;|]')
end

-- Replaces the value, or deletes it if the text is empty. It lives until that time. A command that only
-- reads and settles nothing writes nothing.
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
