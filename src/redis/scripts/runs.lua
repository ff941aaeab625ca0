-- Reads the values of a call of several runs.
--
-- ARGV[1]    empty if KEYS differ and can be read at once
-- then runs  a kind, the number of its KEYS, and the arguments of the kind
local kinds, ahead = {}, args[a] == ''
values = ahead and call('MGET', unpack(keys)) or {}
values[noted] = now

-- A value of another type counts as none.
local function read(i)
  local value = call('MGET', keys[i])[1]
  values[i] = value
  return value
end
