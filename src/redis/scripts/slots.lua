-- Acquires on sliding_window and sliding_counter.
--
-- The value is its header and a list of slots, the oldest first: the time until which each counts, 16
-- digits of microseconds or 19 of nanoseconds, and its units: 1700000010000000:3

-- Whether a / b is at most c / d, exactly, although the products exceed 53 bits.
local function at_most(a, b, c, d)
  while true do
    local whole, other = floor(a / b), floor(c / d)
    if whole ~= other then
      return whole < other
    end
    a, c = a - whole * b, c - other * d
    if a == 0 or c == 0 then
      return a == 0
    end
    a, b, c, d = d, c, b, a
  end
end

-- The rest of fading units, rounded up.
local function faded(units, left, fade)
  local n = floor(units * (left / fade))
  while n < 1 or not at_most(units, n, fade, left) do
    n = n + 1
  end
  while n > 1 and at_most(units, n - 1, fade, left) do
    n = n - 1
  end
  return n
end

-- Arguments: the header; the time until which the slot counts, as it is written; then numbers: wanted,
-- cost, limit; the slot's start and end, each us and ns; for how long slots fade, or 0.
function kinds.slots(a, first, last, dry)
  local head, current, wanted, cost, limit, start, start_ns, stop, stop_ns, fade =
    unpacked('<ssdddddddd', args[a])
  local newest, newest_ns = tonumber(sub(current, 1, 16)), tonumber(sub(current, 17)) or 0
  local length, granted = #head, wanted
  local known = (now > start or (now == start and now_ns >= start_ns)) and
    (now < stop or (now == stop and now_ns < stop_ns))
  local expiry = EXPIRY(newest)

  for i = first, last do
    local old = VALUE(i)
    granted = wanted
    if not known then
      granted, values[i] = -1, false
    elseif old and sub(old, 1, length) ~= head then
      granted = -1
    elseif fade > 0 and now_ns > 0 then
      granted = -2 -- for tests: parts of a microsecond
    else
      -- Slots that still count begin at `from`.
      local used, from, last_at, last_ends, last_units = 0, nil, nil, nil, 0
      for at, ends, units in string.gmatch(old or '', '()(%d+):(%d+)') do
        local us, ns = tonumber(sub(ends, 1, 16)), tonumber(sub(ends, 17)) or 0
        units = tonumber(units)
        if us > newest or (us == newest and ns > newest_ns) then
          granted = -2 -- another clock's
        elseif units == 0 then
          old = sub(old, 1, at - 2) -- given back
        elseif us > now or (us == now and ns > now_ns) then
          from, last_at, last_ends, last_units = from or at, at, ends, units
          used = used + (us - now < fade and faded(units, us - now, fade) or units)
        end
      end
      if granted > 0 and used + wanted * cost > limit then
        granted = used < limit and floor((limit - used) / cost) or 0
      end
      if granted > 0 and not dry then
        if last_ends == current then
          call('SET', keys[i], sub(old, 1, length) .. sub(old, from, last_at - 1) .. current .. ':' ..
            format('%d', last_units + granted * cost), 'KEEPTTL')
        else
          call('SET', keys[i], head .. (from and sub(old, from) .. ' ' or '') .. current .. ':' ..
            format('%d', granted * cost), 'PXAT', expiry)
        end
      end
    end
    NOTE_PART(i)
  end
  return a + 1, granted == wanted
end
