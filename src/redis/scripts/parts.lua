-- Reads and writes exact times: whole microseconds, and parts, of which a microsecond has 1000 q.

local function read_parts(text, at, q)
  local us, ns = tonumber(sub(text, at, at + 15)) or 0, tonumber(sub(text, at + 16, at + 18))
  if not ns then
    return us, 0
  end
  local under = tonumber(sub(text, at + 20)) or 0
  if under >= q then
    under = 0 -- of other parameters
  end
  local parts = ns * q - under
  if parts < 0 then
    return us - 1, parts + 1000 * q
  end
  return us, parts
end

local function write_parts(us, parts, q)
  local ns = floor((parts + q - 1) / q)
  local under = ns * q - parts
  if ns == 1000 then
    us, ns = us + 1, 0
  end
  if ns == 0 and under == 0 then
    return format('%d', us)
  end
  return format('%d%03d %010d', us, ns, under)
end
