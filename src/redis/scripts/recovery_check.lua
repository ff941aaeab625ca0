-- Fails unless the user of Redis may run all commands that the other scripts call. ARGV[1] is the key
-- of the check. It is not in KEYS, so that every node of a cluster can be asked: Redis checks the user
-- first.
local key = ARGV[1]
for _, command in ipairs({
  {'TIME'}, {'SET', key, '1', 'PX', '1000'}, {'MGET', key}, {'SETRANGE', key, '0', '1'}, {'PTTL', key},
  {'PEXPIREAT', key, '0'}, {'DEL', key}, {'RPUSH', key, '1'}, {'LINDEX', key, '0'},
  {'LSET', key, '0', '1'}, {'LRANGE', key, '0', '1'}, {'LINSERT', key, 'BEFORE', '1', '1'},
  {'LREM', key, '1', '1'}, {'LTRIM', key, '0', '1'}, {'LPOP', key}, {'DEL', key},
}) do
  local reply = redis.pcall(unpack(command))
  local message = type(reply) == 'table' and reply.err
  if message and (string.find(message, 'NOPERM', 1, true) or string.find(message, 'ACL failure', 1, true) or
      string.find(message, 'The user executing', 1, true) or string.find(message, 'Unknown Redis', 1, true)) then
    return reply
  end
end
return 1
