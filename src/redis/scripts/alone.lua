-- Reads all KEYS, which differ, for one run of one kind. The body of the kind's function follows
-- without the function: calling a function is cheap, but each call of a script makes its functions, and
-- making one costs as much as a command.
values = values or call('MGET', unpack(keys))
values[noted] = now
local first, last, dry, ahead = 1, key_count, false, true
