-- Acquires and refunds of `base`.
--
-- The value is its header, and one or two fields: units of a window, with its end, and units of the
-- day: 1767225605000000:1 1767312000000000:2. A window that does not end before the day has its own
-- end, in nanoseconds, as a third number after the day's.

-- Arguments: the header; then numbers: 1 for a refund; wanted, cost; the free units of a day, and the
-- units of a window; the day's start and end; the length of a window, us and ns; the name that a refund
-- has, us and ns, or 0.
function kinds.day(a, first, last, dry)
  local head, refund, wanted, cost, most_free, most, start, stop, life, life_ns, name, name_ns =
    unpacked('<sddddddddddd', args[a])
  local length, granted, day = #head, wanted, format('%d', stop)
  local open, open_ns = now + life, now_ns + life_ns -- the end of a window that opens now
  CARRY(open, open_ns)

  for i = first, last do
    local old = VALUE(i)
    granted = wanted
    if now < start or now >= stop then
      granted, values[i] = -1, false
    elseif old and sub(old, 1, length) ~= head then
      granted = -1
    else
      local written, count, us, ns, ends, lives = 0, 0, 0, 0, nil, false
      for at, units, own in string.gmatch(old and sub(old, length + 1) or '', '(%d+):(%d+):?(%d*)') do
        if own == '' and at == day then
          written = tonumber(units)
        else
          count, us, ns = tonumber(units), time_of(own == '' and at or own)
        end
        ends = at
      end
      lives = ends == day
      if us == stop and ns == 1 then
        ns = 0 -- both end together
      end
      if ends and not lives and is_later(time_of(ends), 0, now, now_ns) or
        is_later(us, ns, open, open_ns) then
        granted = -2 -- another clock's
      elseif not lives then
        written, count, us, ns = 0, 0, 0, 0
      end

      local free = math.min(written, most_free)
      local more = math.min(count, most_free - free)
      free = free + more
      count = is_later(us, ns, now, now_ns) and math.min(count - more, most) or 0
      local changed = false
      if granted < 0 then
      elseif refund == 1 then
        local back = math.min(cost, free + count)
        local of_window = math.min(back, count)
        changed = back > 0 and (name == 0 or (is_later(name, name_ns, now, now_ns) and
          not is_later(name, name_ns, stop, 0)))
        free, count = free - back + of_window, count - of_window
      else
        local room = most_free + most - free - count
        if wanted * cost > room then
          granted = floor(room / cost)
        end
        local taken = granted * cost
        local of_day = math.min(taken, most_free - free)
        if count == 0 and taken > of_day then
          us, ns, written = open, open_ns, math.max(written, most_free)
        end
        free, count, changed = free + of_day, count + taken - of_day, granted > 0
      end
      if changed and not dry then
        local text = day .. ':' .. format('%d', count > 0 and written or free)
        if count > 0 then
          local units = format('%d', count + math.max(most_free - written, 0))
          if us < stop then
            text = time_text(us, ns) .. ':' .. units .. ' ' .. text
          else
            local own = format('%d%03d', us, us == stop and ns == 0 and 1 or ns)
            text = (written > 0 and text .. ' ' or '') .. day .. ':' .. units .. ':' .. own
          end
        end
        if lives then
          call('SET', keys[i], head .. text, 'KEEPTTL')
        else
          call('SET', keys[i], head .. text, 'PXAT', EXPIRY(stop))
        end
      end
    end
    NOTE_PART(i)
  end
  return a + 1, granted == wanted
end
