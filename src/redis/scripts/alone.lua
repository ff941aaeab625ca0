-- One run of all KEYS, which differ. The kind's function follows as it stands: a call of a function
-- is cheap, but making one, as each call of a script does, costs as much as a command.
values = values or call('MGET', unpack(keys))
values[noted] = now
local first, last, dry, ahead = 1, key_count, false, true
