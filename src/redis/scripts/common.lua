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
    if not dry then
      call('DEL', keys[i])
    end
  end
  return a, true
end

-- Puts args[a + 1] in the place of args[a], for args[a + 2] ms; empty: of none, and none.
local function swap(a, i, dry)
  if (read(i) or '') ~= args[a] then
    return false
  end
  if dry then
    return true
  end
  if args[a + 1] == '' then
    call('DEL', keys[i])
  else
    call('SET', keys[i], args[a + 1], 'PXAT', format('%d', now_ms + args[a + 2]))
  end
  return true
end

function kinds.swap(a, i, last, dry)
  local done = swap(a, i, dry)
  if not done then
    note(i, -1)
  end
  return a + 3, done
end

-- The same before another step on this key.
function kinds.first(a, i, last, dry)
  swap(a, i, false)
  values[i] = nil
  return kinds[args[a + 3]](a + 5, i, i, dry)
end
