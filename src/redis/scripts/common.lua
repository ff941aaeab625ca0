-- What needs no more than the value as a whole.

function kinds.read(a, i, last)
  for i = i, last do
    out[2 * i], out[2 * i + 1] = -1, value(i)
  end
  return a, false
end

function kinds.pass(a, i)
  out[2 * i], out[2 * i + 1] = 1, value(i)
  return a, true
end

function kinds.reset(a, i, last, dry)
  for i = i, last do
    if not dry then
      call('DEL', keys[i])
    end
    out[2 * i], out[2 * i + 1] = 1, false
  end
  return a, true
end

-- Puts args[a + 1] in the place of args[a], for args[a + 2] ms; empty: of none, and none.
local function swap(a, i, dry)
  local old = call('MGET', keys[i])[1]
  if (old or '') ~= args[a] then
    return false, old
  end
  if dry then
    return true, old
  end
  if args[a + 1] == '' then
    call('DEL', keys[i])
  else
    call('SET', keys[i], args[a + 1], 'PXAT', format('%d', now_ms + args[a + 2]))
  end
  return true, old
end

function kinds.swap(a, i, last, dry)
  local done, old = swap(a, i, dry)
  out[2 * i], out[2 * i + 1] = done and 1 or -1, old
  return a + 3, done
end

-- The same before another step on this key.
function kinds.first(a, i, last, dry)
  swap(a, i, false)
  return kinds[args[a + 3]](a + 5, i, i, dry)
end
