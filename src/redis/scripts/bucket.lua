-- token_bucket, leaky_bucket, pacer, leaky_queue.
--
-- The value is its head, and the time at which the key is as new: 16 digits of microseconds; or
-- 19 of nanoseconds, rounded up, and by how many of their q-th parts that is too late. Here a time
-- is whole microseconds and so many parts, of which a microsecond has 1000 q.

-- Where a value tells its time at `at`.
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

-- head, q, wanted, cost, depth: each us and parts, block, life
-- The lifetime is renewed by the first step of a block of time, for what all of the block can
-- leave: `life` is the block and the depth.
function kinds.bucket(a, first, last, dry)
  local head, q, wanted = args[a], tonumber(args[a + 1]), tonumber(args[a + 2])
  local cost, cost_parts = tonumber(args[a + 3]), tonumber(args[a + 4])
  local depth, depth_parts = tonumber(args[a + 5]), tonumber(args[a + 6])
  local block = tonumber(args[a + 7])
  local length, granted = #head, 0
  local short, at, offset = length + 16, length + 1, format('%d', length)
  local latest = now + depth
  local renewed = now - now % block + depth + 1
  local expiry = format('%d', now_ms + args[a + 8])
  local whole = head .. '%d'
  local is_whole = now_ns == 0 and cost_parts == 0 and depth_parts == 0

  for i = first, last do
    local old = values[i]
    if old == nil then
      old = value(i)
    end
    local ours = old and sub(old, 1, length) == head
    if old and not ours then
      granted = -1
    elseif is_whole and (not old or #old == short) then
      local before = old and tonumber(sub(old, at)) or 0
      local start = before > now and before or now
      granted = 0
      if start + wanted * cost <= latest then
        granted = wanted
      elseif wanted > 1 and start < latest then
        granted = floor((latest - start) / cost)
      end
      if granted > 0 and not dry then
        if before > renewed then
          call('SETRANGE', keys[i], offset, format('%d', start + granted * cost))
        else
          call('SET', keys[i], format(whole, start + granted * cost), 'PXAT', expiry)
        end
      end
    else
      local unit, us, parts = 1000 * q, now, now_ns * q
      local before, before_parts = 0, 0
      if old then
        before, before_parts = read_parts(old, at, q)
        if before > us or (before == us and before_parts > parts) then
          us, parts = before, before_parts
        end
      end
      local last_us, last_parts = latest, now_ns * q + depth_parts
      if last_parts >= unit then
        last_us, last_parts = last_us + 1, last_parts - unit
      end
      -- The most that fit, by halves.
      local least, most = 0, wanted
      while least < most do
        local n = most == wanted and least == 0 and wanted or floor((least + most + 1) / 2)
        local sum = parts + n * cost_parts
        local carry = floor(sum / unit)
        local after = us + n * cost + carry
        if after < last_us or (after == last_us and sum - carry * unit <= last_parts) then
          least = n
        else
          most = n - 1
        end
      end
      granted = least
      if granted > 0 and not dry then
        local sum = parts + granted * cost_parts
        local carry = floor(sum / unit)
        local text = write_parts(us + granted * cost + carry, sum - carry * unit, q)
        if before > renewed and #old == length + #text then
          call('SETRANGE', keys[i], offset, text)
        else
          call('SET', keys[i], head .. text, 'PXAT', expiry)
        end
      end
    end
    out[2 * i], out[2 * i + 1] = granted, old
  end
  return a + 9, granted == wanted
end
