-- Acquires on fixed_window and resetting_bucket.
--
-- The value is its header, the window's end (16 digits of microseconds, or 19 of nanoseconds), and the
-- count in 10 digits.

-- Arguments: the header with the end of the calendar's window, and the length of that as text; then
-- numbers: the length of the header alone; wanted, cost, limit; the calendar's window as its start, its
-- end and the latest end that is valid as it is, or 0 and the period, us and ns.
function kinds.window(a, first, last, dry)
  local opened, offset, length, wanted, cost, limit, start, stop, far =
    unpacked('<ssddddddd', args[a])
  local granted, rest = wanted, nil

  -- The common case: the calendar's window is open, or opens, and all requests are granted.
  if start > 0 and now >= start and now < stop then
    local call, keys, values, find, sub = call, keys, values, find, sub
    local size, all = #opened, wanted * cost
    local most, prior, count, digits, counts, texts, expiry = limit - all, nil, 0, nil, nil, nil, nil
    for i = first, last do
      local old = VALUE(i)
      if old ~= prior then -- many keys have the same
        digits, prior = texts and texts[old], old
        if digits then
          count = counts[old]
        else
          count = 0
          if old then
            count = #old == size + 10 and find(old, opened, 1, true) == 1 and tonumber(sub(old, -10))
          end
          digits = count and count <= most and format('%010d', count + all)
          if digits and first < last then
            counts, texts = counts or {}, texts or {}
            counts[old], texts[old] = count, digits
          end
        end
      end
      if not digits then
        rest = rest or {}
        rest[#rest + 1] = i
      elseif not dry then
        values[i] = count
        if old then
          call('SETRANGE', keys[i], offset, digits)
        else
          expiry = expiry or EXPIRY(stop)
          call('SET', keys[i], opened .. digits, 'PXAT', expiry)
        end
      end
    end
  else
    EVERY(rest)
  end

  if rest then
    -- helpers
    local aligned, stop_ns, head = start > 0, 0, sub(opened, 1, length)
    if not aligned then
      stop, stop_ns = now + stop, now_ns + far
      CARRY(stop, stop_ns)
      opened = head .. format(stop_ns == 0 and '%d' or '%d%03d', stop, stop_ns) .. ' '
    end
    for _, i in ipairs(rest) do
      local old, count, kept = values[i], 0, false
      if not ahead then -- a key may have come before in this run
        old = read(i)
      end
      granted = wanted
      if aligned and (now < start or now >= stop) then
        granted, values[i] = -1, false
      elseif old and sub(old, 1, length) ~= head then
        granted = -1
      elseif old and #old > length + 30 then
        granted = -4
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
      if granted > 0 and count > limit - wanted * cost then
        granted = count < limit and floor((limit - count) / cost) or 0
      end
      if granted > 0 and not dry then
        local digits = format('%010d', count + granted * cost)
        if kept then
          call('SETRANGE', keys[i], format('%d', #old == length + 27 and length + 17 or length + 20),
            digits)
        else
          call('SET', keys[i], opened .. digits, 'PXAT', EXPIRY(stop))
        end
      end
      NOTE_PART(i)
    end
  end
  return a + 1, granted == wanted
end
