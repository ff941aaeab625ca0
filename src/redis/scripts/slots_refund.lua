-- Refunds to sliding_window and sliding_counter.
--
-- Arguments: the header; then numbers: the name, cost; for how long a slot counts, us and ns.
function kinds.slots_refund(a, first, last, dry)
  local head, name, name_ns, left, life, life_ns = unpacked('<sddddd', args[a])
  local old, known = find_value(first, head, math.huge)
  if not old then
    return a + 1, known
  end

  local slots, n, last_us, last_ns, changed = {}, 0, 0, 0, false
  for ends, units in string.gmatch(sub(old, #head + 1), '(%d+):(%d+)') do
    last_us, last_ns = time_of(ends)
    n = n + 1
    slots[n] = {ends, tonumber(units), last_us, last_ns}
  end
  if is_later(last_us, last_ns, now + life, now_ns + life_ns) then
    note(first, -2) -- another clock's
    return a + 1, false
  end
  for k = n, 1, -1 do -- from the newest ones
    local slot = slots[k]
    if is_later(slot[3], slot[4], now, now_ns) and
      (name == 0 or (name == slot[3] and name_ns == slot[4])) then
      local back = left < slot[2] and left or slot[2]
      slot[2], left, changed = slot[2] - back, left - back, changed or back > 0
    end
  end
  if changed then
    -- The newest slot stays even if it is empty: it shows how far the clock has been.
    local list = {}
    for k, slot in ipairs(slots) do
      if slot[2] > 0 or k == n then
        list[#list + 1] = slot[1] .. ':' .. format('%d', slot[2])
      end
    end
    -- The queue for a swap may follow.
    local line = string.match(old, '|.*$') or ''
    put(first, old, #head, table.concat(list, ' ') .. line, dry)
  end
  return a + 1, true
end
