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
  local length, granted = #head, wanted
  local offset, offset_ns = format('%d', length + 17), format('%d', length + 20)

  if aligned then
    far = tonumber(args[a + 6])
    if now < tonumber(args[a + 4]) or now >= stop then
      for i = first, last do
        values[i] = false
        note(i, -1)
      end
      return a + 7, false
    end
  else
    stop, stop_ns = now + stop, now_ns + args[a + 6]
    if stop_ns >= 1000 then
      stop, stop_ns = stop + 1, stop_ns - 1000
    end
  end
  local opened = head .. format(stop_ns == 0 and '%d' or '%d%03d', stop, stop_ns) .. ' '
  local size, all, most = #opened, opened .. format('%010d', wanted * cost), limit - wanted * cost
  local expiry = format('%d', now_ms + floor((stop - now) / 1000) + 2)

  for i = first, last do
    local old = values[i]
    local count, kept = 0, false
    if old == nil then
      old = read(i)
    end
    granted = wanted
    if old and sub(old, 1, size) == opened then
      count, kept = tonumber(sub(old, -10)) or 0, true
    elseif old and sub(old, 1, length) ~= head then
      granted = -1
    elseif old then
      local ends = tonumber(sub(old, length + 1, length + 16)) or 0
      local ends_ns = tonumber(sub(old, length + 17, -12)) or 0
      if ends > now or (ends == now and ends_ns > now_ns) then
        count = tonumber(sub(old, -10)) or 0
        kept = not aligned or (ends >= stop and (ends < far or (ends == far and ends_ns == 0)))
      else
        values[i] = false
      end
    end
    if count > most and granted > 0 then
      granted = count < limit and floor((limit - count) / cost) or 0
    end
    if granted > 0 and not dry then
      if kept then
        call('SETRANGE', keys[i], #old == length + 27 and offset or offset_ns,
          format('%010d', count + granted * cost))
      elseif count == 0 and granted == wanted then
        call('SET', keys[i], all, 'PXAT', expiry)
      else
        call('SET', keys[i], opened .. format('%010d', count + granted * cost), 'PXAT', expiry)
      end
    end
    if granted ~= wanted then
      note(i, granted)
    end
  end
  return a + 7, granted == wanted
end
