-- Decides all operations on a window of which servers hold chunks: those of window.lua and
-- window_refund.lua, peeks and resets; and settles the chunk of one server. Chunks expire with their
-- window.
--
-- Arguments: the header; then numbers: the operation; 1 if all or nothing; wanted, cost; the name;
-- limit; the calendar's window as its start, its end and the latest end that is valid as it is, or 0
-- and the period, us and ns; then of the chunk: the server's id, the number of the settlement, the
-- units used so far, and the units to hold.
--
-- C reads the same as from bucket_chunk.lua.
function kinds.window_chunk(a, first, last, dry)
  local head, op, whole, wanted, cost, name, name_ns, limit, start, stop, far, id, number, used, want =
    unpacked('<sdddddddddddddd', args[a])
  local old, aligned, stop_ns = raw_of(first), start > 0, 0
  if aligned and (now < start or now >= stop) then
    values[first], raws[first] = false, nil
    note(first, -1)
    return a + 1, false
  elseif old and sub(old, 1, #head) ~= head then
    values[first] = old
    note(first, -1)
    return a + 1, false
  elseif not aligned then
    stop, stop_ns = now + stop, now_ns + far
    CARRY(stop, stop_ns)
  end

  local at = old and find(old, '[;|]', #head + 1)
  local front = old and sub(old, #head + 1, (at or 0) - 1) or ''
  local ends, ends_ns = time_of(sub(front, 1, -12))
  local is_open = is_later(ends, ends_ns, now, now_ns)
  local others, count, held, is_old, mine, spent, ended, ended_at, line =
    read_chunks(is_open and at and sub(old, at) or '', id, number, used)
  local before = is_open and tonumber(sub(front, -10)) or 0
  local in_use = is_open and before + spent + ended or 0
  local stored_ends, furthest = ends, aligned and far or stop + 86400000000
  if not is_open or is_later(ends, ends_ns, furthest, 0) or (aligned and ends < stop) then
    ends, ends_ns = stop, stop_ns
  end

  local function text_of(units)
    return head .. time_text(ends, ends_ns) .. format(' %010d', units)
  end
  local text, granted = in_use > 0 and text_of(in_use) or '', wanted
  if op == 0 then
    granted = math.min(wanted, math.max(0, floor((limit - in_use - held) / cost)))
    if whole == 1 and granted < wanted then
      granted = 0
    end
    in_use = dry and in_use or in_use + granted * cost
  elseif op == 2 and not dry and (name == 0 or (name == ends and name_ns == ends_ns)) then
    in_use = math.max(0, in_use - cost)
  elseif op == 3 and not dry then
    in_use = 0
  end

  local take = (is_old == 1 or count >= CHUNKS_MAX) and 0 or
    math.max(0, math.min(want, limit - in_use - held))
  local tail = others .. write_chunk(id, take, used, number, 0) .. line
  if op ~= 0 and is_open and in_use == before then -- only an acquire cuts back what stays as it is
    put_chunks(first, op, old, (before > 0 or tail ~= '') and head .. front .. tail or '', stored_ends)
  elseif in_use > 0 or tail ~= '' then
    put_chunks(first, op, old, text_of(in_use) .. tail, ends)
  elseif is_open or op == 3 then
    put_chunks(first, op, old, '', ends)
  end
  values[first] = text .. format(';%d:%d:%d%03d:%d', held, take, ends, ends_ns, is_old)
  NOTE_PART(first)
  return a + 1, granted == wanted
end
