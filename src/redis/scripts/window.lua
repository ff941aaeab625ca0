-- fixed_window, resetting_bucket.
--
-- The value is its head, the window's end (16 digits of microseconds, or 19 of nanoseconds), and
-- the count in 10 digits.

-- head, wanted, cost, limit; then the calendar's window as its start, its end and the latest end
-- that is used as it is; or an empty start, and the period: us and ns
function kinds.window(a, first, last, dry)
  local head, wanted, cost = args[a], tonumber(args[a + 1]), tonumber(args[a + 2])
  local limit = tonumber(args[a + 3])
  local aligned, stop, stop_ns, far = args[a + 4] ~= '', tonumber(args[a + 5]), 0, nil
  local length, granted = #head, 0
  local offset, offset_ns = format('%d', length + 17), format('%d', length + 20)

  if aligned then
    far = tonumber(args[a + 6])
    if now < tonumber(args[a + 4]) or now >= stop then
      for i = first, last do
        out[2 * i], out[2 * i + 1] = -1, false
      end
      return a + 7, false
    end
  else
    stop, stop_ns = now + stop, now_ns + args[a + 6]
    if stop_ns >= 1000 then
      stop, stop_ns = stop + 1, stop_ns - 1000
    end
  end
  local fresh = head .. format(stop_ns == 0 and '%d' or '%d%03d', stop, stop_ns) .. ' %010d'
  local expiry = format('%d', now_ms + floor((stop - now) / 1000) + 2)

  for i = first, last do
    local old = values[i]
    if old == nil then
      old = value(i)
    end
    if old and sub(old, 1, length) ~= head then
      granted = -1
    else
      local count, kept = 0, false
      if old then
        local ends = tonumber(sub(old, length + 1, length + 16)) or 0
        local ends_ns = tonumber(sub(old, length + 17, -12)) or 0
        if ends > now or (ends == now and ends_ns > now_ns) then
          count = tonumber(sub(old, -10)) or 0
          kept = not aligned or
            (ends >= stop and (ends < far or (ends == far and ends_ns == 0)))
        end
      end
      granted = 0
      if count + wanted * cost <= limit then
        granted = wanted
      elseif count < limit then
        granted = floor((limit - count) / cost)
      end
      if granted > 0 and not dry then
        count = count + granted * cost
        if kept then
          call('SETRANGE', keys[i], #old == length + 27 and offset or offset_ns, format('%010d', count))
        else
          call('SET', keys[i], format(fresh, count), 'PXAT', expiry)
        end
      end
    end
    out[2 * i], out[2 * i + 1] = granted, old
  end
  return a + 7, granted == wanted
end
