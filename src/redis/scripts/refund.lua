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

-- The value, or nil if there is nothing to give back, and whether that is known. A value that is more than
-- `most` longer than its head has chunks.
local function find_value(i, head, most)
  local old = VALUE(i)
  if old and sub(old, 1, #head) ~= head then
    note(i, -1)
    return nil, false
  elseif old and #old > #head + most then
    note(i, -4)
    return nil, false
  end
  return old or nil, true
end
