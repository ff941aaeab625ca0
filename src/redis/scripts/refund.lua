-- What refunds share. They take back of what is in use, never below none. A refund may name the time
-- of what it gives back: us and ns; us is 0 where it does not.

-- What remains of a value that says something still. The lifetime stays.
local function put(i, old, length, text, dry)
  if dry then
  elseif text == '' then
    call('DEL', keys[i])
  elseif #old == length + #text then
    call('SETRANGE', keys[i], format('%d', length), text)
  else
    call('SET', keys[i], sub(old, 1, length) .. text, 'KEEPTTL')
  end
end

-- The value, or nil if there is nothing to give back, and whether that is known.
local function look(i, head)
  local old = values[i]
  if old == nil then
    old = read(i)
  end
  if old and sub(old, 1, #head) ~= head then
    note(i, -1)
    return nil, false
  end
  return old or nil, true
end
