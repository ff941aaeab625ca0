-- Refunds to a bucket.
--
-- Arguments: the header; then numbers: the name; q; the refund, us and parts; 1 if only the newest
-- request may be refunded.
function kinds.bucket_refund(a, first, last, dry)
  local head, name, name_ns, q, back, back_parts, newest = unpacked('<sdddddd', args[a])
  local old, known = find_value(first, head, 30)
  if not old then
    return a + 1, known
  end

  local us, parts = read_parts(old, #head + 1, q)
  local ends, ends_ns = time_of(sub(old, #head + 1, #head + 19))
  if is_later(us, parts, now, now_ns * q) then
    local left, left_parts =
      give_back(us, parts, ends, ends_ns, q, name, name_ns, back, back_parts, newest)
    if left ~= us or left_parts ~= parts then
      put(first, old, #head, left > 0 and write_parts(left, left_parts, q) or '', dry)
    end
  end
  return a + 1, true
end
