-- Refunds to fixed_window and resetting_bucket.
--
-- Arguments: the header; then numbers: the name, cost; the calendar's window as its start, its end and
-- the latest end that is valid as it is; or 0.
function kinds.window_refund(a, first, last, dry)
  local head, name, name_ns, cost, start, stop, far = unpacked('<sdddddd', args[a])
  local old, known = find_value(first, head, 30)
  if not old then
    return a + 1, known
  end

  local ends, ends_ns = time_of(sub(old, #head + 1, -12))
  local count = tonumber(sub(old, -10)) or 0
  if start > 0 and (now < start or now >= stop) then
    values[first] = false
    note(first, -1)
    return a + 1, false
  end
  if not is_later(ends, ends_ns, now, now_ns) then
    return a + 1, true
  end
  if start > 0 and (ends < stop or is_later(ends, ends_ns, far, 0)) then
    note(first, -2) -- another clock's
    return a + 1, false
  end
  if name == 0 or (name == ends and name_ns == ends_ns) then
    put(first, old, #old - 10, cost < count and format('%010d', count - cost) or '', dry)
  end
  return a + 1, true
end
