-- fixed_window, resetting_bucket.
--
-- The value is its head, the window's end (16 digits of microseconds, or 19 of nanoseconds), and
-- the count in 10 digits.

-- head; then numbers: wanted, cost, limit; and the calendar's window as its start, its end and the
-- latest end that is used as it is; or 0, and the period: us and ns
function kinds.window(a, first, last, dry)
  local head, wanted, cost, limit, start, stop, far = args[a], unpacked('<dddddd', args[a + 1])
  local aligned, stop_ns = start > 0, 0
  local length, granted = #head, wanted

  if aligned and (now < start or now >= stop) then
    for i = first, last do
      values[i] = false
      note(i, -1)
    end
    return a + 2, false
  elseif not aligned then
    stop, stop_ns = now + stop, now_ns + far
    if stop_ns >= 1000 then
      stop, stop_ns = stop + 1, stop_ns - 1000
    end
  end
  local opened = head .. format(stop_ns == 0 and '%d' or '%d%03d', stop, stop_ns) .. ' '
  local size, most, counts, texts = #opened, limit - wanted * cost, {}, {}
  local offset, expiry

  for i = first, last do
    local old = values[i]
    local count, kept, is_open = 0, false, false
    if old == nil then
      old = read(i)
    end
    granted = wanted
    if counts[old] then
      count, kept, is_open = counts[old], true, aligned
    elseif old and #old == size + 10 and find(old, opened, 1, true) == 1 then
      count, kept, is_open = tonumber(sub(old, -10)) or 0, true, aligned
      counts[old] = count -- many keys have the same
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
      if is_open then
        values[i] = count
      end
      local after = count + granted * cost
      local digits = texts[after]
      if not digits then
        digits = format('%010d', after)
        texts[after] = digits
      end
      if not kept then
        expiry = expiry or format('%d', now_ms + floor((stop - now) / 1000) + 2)
        call('SET', keys[i], opened .. digits, 'PXAT', expiry)
      elseif #old == length + 27 then
        offset = offset or format('%d', length + 17)
        call('SETRANGE', keys[i], offset, digits)
      else
        call('SETRANGE', keys[i], length + 20, digits)
      end
    end
    if granted ~= wanted then
      note(i, granted)
    end
  end
  return a + 2, granted == wanted
end
