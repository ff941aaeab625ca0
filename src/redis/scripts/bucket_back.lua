-- Returns a bucket's time after a refund, us and parts; 0 if nothing is in use any more. The refund may
-- name the time of its request, which is that of the newest if it is `ends` and `ends_ns`.
local function give_back(us, parts, ends, ends_ns, q, name, name_ns, back, back_parts, newest)
  local unit = 1000 * q
  if not is_later(us, parts, now, now_ns * q) then
    return us, parts
  end
  if name > 0 and (name ~= ends or name_ns ~= ends_ns) then
    -- Not more than is left of the request, which its name rounds up.
    local left, left_parts = name - now, (name_ns - now_ns - (q > 1 and 1 or 0)) * q
    if left_parts < 0 then
      left, left_parts = left - 1, left_parts + unit
    end
    if newest == 1 or not is_later(left, left_parts, 0, 0) then
      return us, parts
    end
    if is_later(back, back_parts, left, left_parts) then
      back, back_parts = left, left_parts
    end
  end
  us, parts = us - back, parts - back_parts
  if parts < 0 then
    us, parts = us - 1, parts + unit
  end
  if not is_later(us, parts, now, now_ns * q) then
    return 0, 0
  end
  return us, parts
end
