-- Acquires on token_bucket, leaky_bucket, pacer and leaky_queue.
--
-- The value is its header, and the time at which the key is as if never used: 16 digits of
-- microseconds; or 19 of nanoseconds, rounded up, and the number of q-th parts of a nanosecond by which
-- it is rounded. parts.lua reads and writes them.

-- Returns how many of `wanted` requests, each of us and parts, fit between two times, and the time
-- after them. By binary search.
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

-- Arguments: the header, and its length as text; then numbers: q, wanted, cost and depth (each us and
-- parts), block.
--
-- A lifetime ends with a block of time, and is renewed when a state reaches into the next one.
function kinds.bucket(a, first, last, dry)
  local call, keys, values, byte, format, find = call, keys, values, byte, format, find
  local head, offset, q, wanted, cost, cost_parts, depth, depth_parts, block =
    unpacked('<ssddddddd', args[a])
  local length, all, granted, rest = #head, wanted * cost, wanted, nil
  local latest = now + depth - all

  -- The common case: times are whole microseconds, and requests are granted.
  if now_ns == 0 and cost_parts == 0 and depth_parts == 0 and now >= 1000000000000000 then
    local size, at = length + 16, length + 1
    local fresh, edge, expiry
    for i = first, last do
      local old, before = VALUE(i), 0
      if old and #old == size and find(old, head, 1, true) == 1 then
        local b, c, d, e, f, g, h, j, k, l, m, n, o, p, r, s = byte(old, at, size)
        before = (((((((b * 10 + c) * 10 + d) * 10 + e) * 10 + f) * 10 + g) * 10 + h) * 10 + j
            - 533333328) * 100000000
          + ((((((k * 10 + l) * 10 + m) * 10 + n) * 10 + o) * 10 + p) * 10 + r) * 10 + s - 533333328
      end
      local is_fresh = before <= now
      local after = all + (is_fresh and now or before)
      if after - all > latest or (old and before <= 0) then
        rest = rest or {}
        rest[#rest + 1] = i
      elseif not dry then
        local key, text, start = keys[i], is_fresh and fresh or format('%d', after), after - after % block
        if before < start and start ~= edge then
          edge, expiry = start, EXPIRY(start + block)
        end
        if not old then
          call('SET', key, head .. text, 'PXAT', expiry)
        else
          call('SETRANGE', key, offset, text)
          if before < start then
            call('PEXPIREAT', key, expiry)
          end
        end
        if is_fresh then
          fresh, before = text, 0
        end
        values[i] = before
      end
    end
  else
    EVERY(rest)
  end

  if rest then
    -- helpers
    for _, i in ipairs(rest) do
      local old = values[i]
      if not ahead then -- a key may have come before in this run
        old = read(i)
      end
      if old and sub(old, 1, length) ~= head then
        granted = -1
      elseif old and #old > length + 30 then
        granted = -4
      else
        local us, parts, before, before_parts = now, now_ns * q, 0, 0
        if old then
          before, before_parts = read_parts(old, length + 1, q)
          if before > us or (before == us and before_parts > parts) then
            us, parts = before, before_parts
          end
        end
        local last_us, last_parts = now + depth, now_ns * q + depth_parts
        if last_parts >= 1000 * q then
          last_us, last_parts = last_us + 1, last_parts - 1000 * q
        end
        granted, us, parts =
          fit(wanted, cost, cost_parts, us, parts, last_us, last_parts, 1000 * q)
        if granted > 0 and not dry then
          local text, start = write_parts(us, parts, q), us - us % block
          if before >= start and #old == length + #text then
            call('SETRANGE', keys[i], offset, text)
          else
            call('SET', keys[i], head .. text, 'PXAT', EXPIRY(start + block))
          end
        end
      end
      NOTE_PART(i)
    end
  end
  return a + 1, granted == wanted
end
