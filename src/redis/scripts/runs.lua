-- ARGV[1]    empty: KEYS differ, and are read at once
-- then runs  a kind, how many of KEYS it takes, and what the kind wants
local kinds, ahead = {}, args[a] == ''
values = ahead and call('MGET', unpack(keys)) or {}
values[noted] = now

-- A value of any other type is none.
local function read(i)
  local value = call('MGET', keys[i])[1]
  values[i] = value
  return value
end
