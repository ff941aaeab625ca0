-- token_bucket, leaky_bucket, pacer, leaky_queue.
--
-- The value is its head, and the time at which the key is as new: 16 digits of microseconds; or
-- 19 of nanoseconds, rounded up, and by how many of their q-th parts that is too late. parts.lua
-- reads and writes them.

-- How many fit of `wanted` that take us and parts each, from a time on until another; and the
-- time after them. By halves.
local function fit(wanted, cost, cost_parts, us, parts, last_us, last_parts, unit)
  local least, most, try = 0, wanted, wanted
  local least_us, least_parts = us, parts
  while least < most do
    local sum = parts + try * cost_parts
    local carry = floor(sum / unit)
    local after, after_parts = us + try * cost + carry, sum - carry * unit
    if after < last_us or (after == last_us and after_parts <= last_parts) then
      least, least_us, least_parts = try, after, after_parts
    else
      most = try - 1
    end
    try = floor((least + most + 1) / 2)
  end
  return least, least_us, least_parts
end

-- head; then numbers: q, wanted, cost and depth: each us and parts, block
-- A lifetime is that of a block of time, and renewed when a state reaches into the next one.
function kinds.bucket(a, first, last, dry)
  local call, keys, values, byte, format, find = call, keys, values, byte, format, find
  local head, q, wanted, cost, cost_parts, depth, depth_parts, block =
    args[a], unpacked('<ddddddd', args[a + 1])
  local all, latest, length, granted = wanted * cost, now + depth, #head, wanted
  local offset, fresh, fresh_expiry

  local function expiry(until_us)
    return format('%d', now_ms + floor((until_us - until_us % block + block - now) / 1000) + 2)
  end

  -- Most times are whole microseconds.
  local is_whole = now_ns == 0 and cost_parts == 0 and depth_parts == 0 and now >= 1000000000000000
  local size, at = length + 16, length + 1
  local edge, fits = now + all - (now + all) % block, all <= depth

  for i = first, last do
    local key, old = keys[i], values[i]
    if old == nil then
      old = read(i)
    end
    granted = nil
    if is_whole and fits then
      local before = 0
      if old and #old == size and find(old, head, 1, true) == 1 then
        local b, c, d, e, f, g, h, j, k, l, m, n, o, p, r, s = byte(old, at, size)
        before = (b * 10000000 + c * 1000000 + d * 100000 + e * 10000 + f * 1000 + g * 100 + h * 10
          + j - 533333328) * 100000000 + k * 10000000 + l * 1000000 + m * 100000 + n * 10000
          + o * 1000 + p * 100 + r * 10 + s - 533333328
      end
      if before > now then
        local after = before + all
        granted = wanted
        if after > latest then
          granted = wanted > 1 and before < latest and floor((latest - before) / cost) or 0
          after = before + granted * cost
        end
        if granted > 0 and not dry then
          values[i] = before
          if before >= after - after % block then
            offset = offset or format('%d', length)
            call('SETRANGE', key, offset, format('%d', after))
          else
            call('SET', key, head .. format('%d', after), 'PXAT', expiry(after))
          end
        end
      elseif not old or before > 0 then
        granted, values[i] = wanted, false
        fresh = fresh or format('%d', now + all)
        if dry then
        elseif before >= edge then
          offset = offset or format('%d', length)
          call('SETRANGE', key, offset, fresh)
        else
          fresh_expiry = fresh_expiry or expiry(now + all)
          call('SET', key, head .. fresh, 'PXAT', fresh_expiry)
        end
      end
    end

    if not granted and old and sub(old, 1, length) ~= head then
      granted = -1
    elseif not granted then
      local us, parts, before, before_parts = now, now_ns * q, 0, 0
      if old then
        before, before_parts = read_parts(old, length + 1, q)
        if before > us or (before == us and before_parts > parts) then
          us, parts = before, before_parts
        end
      end
      local last_us, last_parts = latest, now_ns * q + depth_parts
      if last_parts >= 1000 * q then
        last_us, last_parts = last_us + 1, last_parts - 1000 * q
      end
      granted, us, parts =
        fit(wanted, cost, cost_parts, us, parts, last_us, last_parts, 1000 * q)
      if granted > 0 and not dry then
        local text = write_parts(us, parts, q)
        if before >= us - us % block and #old == length + #text then
          call('SETRANGE', key, length, text)
        else
          call('SET', key, head .. text, 'PXAT', expiry(us))
        end
      end
    end
    if granted ~= wanted then
      note(i, granted)
    end
  end
  return a + 2, granted == wanted
end
