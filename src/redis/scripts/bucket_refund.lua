-- head; then numbers: the name, q, what is given back: us and parts; 1: only to the newest
function kinds.bucket_refund(a, first, last, dry)
  local head, name, name_ns, q, back, back_parts, newest =
    args[a], unpacked('<dddddd', args[a + 1])
  local unit = 1000 * q
  local old, known = look(first, head)
  if not old then
    return a + 2, known
  end

  local us, parts = read_parts(old, #head + 1, q)
  local ends, ends_ns = time_of(sub(old, #head + 1, #head + 19))
  if not is_later(us, parts, now, now_ns * q) then
    return a + 2, true
  end
  if name > 0 and (name ~= ends or name_ns ~= ends_ns) then
    -- No more than is left of it, which the name rounds up.
    local left, left_parts = name - now, (name_ns - now_ns - (q > 1 and 1 or 0)) * q
    if left_parts < 0 then
      left, left_parts = left - 1, left_parts + unit
    end
    if newest == 1 or not is_later(left, left_parts, 0, 0) then
      return a + 2, true
    end
    if is_later(back, back_parts, left, left_parts) then
      back, back_parts = left, left_parts
    end
  end
  us, parts = us - back, parts - back_parts
  if parts < 0 then
    us, parts = us - 1, parts + unit
  end
  put(first, old, #head, is_later(us, parts, now, now_ns * q) and write_parts(us, parts, q) or '', dry)
  return a + 2, true
end
