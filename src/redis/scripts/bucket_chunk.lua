-- Decides all operations on a bucket of which servers hold chunks: those of bucket.lua and
-- bucket_refund.lua, peeks and resets; and settles the chunk of one server.

-- Multiplies a duration, us and parts. By digits of 10 bits, because parts have up to 42 bits.
local function times(n, us, parts, unit)
  if parts == 0 or n < 2 then
    return n * us, n * parts
  end
  local sum, sum_parts, carry = 0, 0, nil
  for shift = 4, 0, -1 do
    local digit = floor(n / 1024 ^ shift) % 1024
    sum_parts = sum_parts * 1024 + digit * parts
    carry = floor(sum_parts / unit)
    sum, sum_parts = sum * 1024 + digit * us + carry, sum_parts - carry * unit
  end
  return sum, sum_parts
end

local function plus(us, parts, more, more_parts, unit)
  us, parts = us + more, parts + more_parts
  if parts >= unit then
    return us + 1, parts - unit
  end
  return us, parts
end

-- Divides a duration by another, rounded down.
local function division(us, parts, by, by_parts, unit)
  if us < 0 then
    return 0
  end
  local n = floor((us + parts / unit) / (by + by_parts / unit))
  while n > 0 do
    local least, least_parts = times(n, by, by_parts, unit)
    if not is_later(least, least_parts, us, parts) then
      break
    end
    n = n - 1
  end
  while true do
    local most, most_parts = times(n + 1, by, by_parts, unit)
    if is_later(most, most_parts, us, parts) then
      return n
    end
    n = n + 1
  end
end

-- Arguments: the header; then numbers: the operation; 1 if all or nothing; wanted, cost; the name; 1 if
-- only the newest request may be refunded; q; the time of a unit and the depth, each us and parts; then
-- of the chunk: the server's id, the number of the settlement, the units used so far, and the time that
-- these alone would give the bucket, us and parts; the units to hold, for how long, and the block of
-- lifetimes.
--
-- C reads the state before the operation, the units that others hold, the units that the server holds
-- now, the end of its chunk in nanoseconds, and whether the settlement came too late.
function kinds.bucket_chunk(a, first, last, dry)
  local head, op, whole, wanted, cost, name, name_ns, newest, q, length, length_parts, depth,
    depth_parts, id, number, used, own, own_parts, want, lease,
    block = unpacked('<sdddddddddddddddddddd', args[a])
  local old, part, now_parts = raw_of(first), 1000 * q, now_ns * q
  if old and sub(old, 1, #head) ~= head then
    values[first] = old
    note(first, -1)
    return a + 1, false
  end

  local at = old and find(old, '[;|]', #head + 1)
  local front = old and sub(old, #head + 1, (at or 0) - 1) or ''
  local others, count, held, is_old, mine, spent, ended, ended_at, line =
    read_chunks(at and sub(old, at) or '', id, number, used)
  local us, parts = 0, 0
  if front ~= '' then
    us, parts = read_parts(front, 1, q)
  end
  if us > now + depth + 86400000000 then -- a clock was set back
    us, parts = plus(now + depth, now_parts, 0, depth_parts, part)
  end
  if ended > 0 then
    if ended_at > us then
      us, parts = ended_at, 0
    end
    local more, more_parts = times(ended, length, length_parts, part)
    us, parts = plus(us, parts, more, more_parts, part)
  end
  if spent > 0 then
    local more, more_parts = times(spent, length, length_parts, part)
    us, parts = plus(us, parts, more, more_parts, part)
    if is_later(own, own_parts, us, parts) then
      us, parts = own, own_parts
    end
  end

  -- The number of free units.
  local reserved, reserved_parts = times(held, length, length_parts, part)
  local function left()
    local from, from_parts = us, parts
    if not is_later(us, parts, now, now_parts) then
      from, from_parts = now, now_parts
    end
    local room, room_parts = now + depth - from - reserved,
      now_parts + depth_parts - from_parts - reserved_parts
    local carry = floor(room_parts / part)
    return division(room + carry, room_parts - carry * part, length, length_parts, part)
  end

  local text = is_later(us, parts, now, now_parts) and head .. write_parts(us, parts, q) or ''
  local room, granted = left(), wanted
  if op == 0 then
    granted = math.min(wanted, floor(room / cost))
    if whole == 1 and granted < wanted then
      granted = 0
    end
    if not dry and granted > 0 then
      local more, more_parts = times(granted * cost, length, length_parts, part)
      if not is_later(us, parts, now, now_parts) then
        us, parts = now, now_parts
      end
      us, parts = plus(us, parts, more, more_parts, part)
      room = room - granted * cost
    end
  elseif op == 2 and not dry then
    local ends, ends_ns = time_of(sub(write_parts(us, parts, q), 1, 19))
    local back, back_parts = times(cost, length, length_parts, part)
    us, parts = give_back(us, parts, ends, ends_ns, q, name, name_ns, back, back_parts, newest)
    room = left()
  elseif op == 3 and not dry then
    us, parts = 0, 0
    room = left()
  end

  local take = (is_old == 1 or count >= CHUNKS_MAX) and 0 or math.min(want, room)
  local tail = others .. write_chunk(id, take, used, number, now + lease) .. line
  if us == 0 and tail ~= line then
    us, parts = now, now_parts -- the unreported use of others goes on from now
  end
  local life = times(held + take, length, length_parts, part)
  if tail == '' and us == 0 then
    put_chunks(first, op, old, '', 0)
  else
    life = life + math.max(us, tail ~= line and now + lease or 0, line ~= '' and now + 1000000 or 0)
    put_chunks(first, op, old, head .. (us > 0 and write_parts(us, parts, q) or '') .. tail,
      life - life % block + block)
  end
  values[first] = text .. format(';%d:%d:%d000:%d', held, take, now + lease, is_old)
  NOTE_PART(first)
  return a + 1, granted == wanted
end
