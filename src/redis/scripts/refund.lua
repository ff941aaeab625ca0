-- Declares the functions that refunds share. They return units that are in use, never more. A refund
-- may name the time of its request, us and ns; us is 0 if it does not.

-- Writes the rest of a value that is still in use. The lifetime stays.
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

-- Returns the value, or nil if there is nothing to refund, and whether that is certain. A value that is
-- more than `most` longer than its header has chunks.
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
