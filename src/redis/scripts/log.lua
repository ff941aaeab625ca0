-- sliding_log: a list of uses (uses.lua). A use has a name if it isn't its end: no two have the same.

-- A name, or the end if there is none, in microseconds and nanoseconds.
local function name_of(ends, name)
  if name == '' then
    return time_of(ends)
  end
  return tonumber(sub(name, 1, -4)) or 0, tonumber(sub(name, -3)) or 0
end

-- The end and name of the newest use, also if that was given back.
local function newest_of(l)
  if l.newest ~= '' then
    return l.newest, l.newest_name
  end
  return l.ends, l.name
end

-- Uses of `granted` requests, which end then, and have that as their name or those behind the newest one.
local function add_to_log(l, fresh, granted, cost, us, ns, after_us, after_ns)
  local ends, name_us, name_ns, name = time_text(us, ns), us, ns, nil
  if not is_later(us, ns, after_us, after_ns) then
    name_us, name_ns = after_us, after_ns + 1
  end
  for _ = 1, granted do
    if name_ns == 1000 then
      name_us, name_ns = name_us + 1, 0
    end
    name = (name_us ~= us or name_ns ~= ns) and format('%d%03d', name_us, name_ns) or ''
    fresh[#fresh + 1] = use_text(ends, cost, name)
    name_ns = name_ns + 1
  end
  append(l, granted, cost, 0)
  l.ends, l.name, l.newest, l.newest_name = ends, name, '', ''
end

-- Gives back the last uses, all behind a place but `part` units of the first of them.
local function cut_log(l, p, used, q, part)
  local newest, newest_name = newest_of(l)
  local before, _, before_name = use_of(q.n > 0 and call('LINDEX', l.key, format('%d', q.n)))
  local ends, _, name = use_of(call('LINDEX', l.key, format('%d', q.n + 1)))
  local told = l.head .. (q.n > p.n and use_text(before, q.units - p.units, before_name) .. ' ' or '') ..
    use_text(ends, l.units - q.units, name) ..
    (l.newest ~= '' and ' ' .. use_text(newest, 0, newest_name) or '')
  local n = q.n + (part > 0 and 1 or 0)
  if l.groups ~= '' then
    l.groups = sub(l.groups, 1, (q.group - 1) * l.wide) ..
      group_text(l, n - q.from, q.units + part - q.from_units, 0)
  end
  l.n, l.units, l.ends, l.name = n, q.units + part, before, before_name
  if part > 0 then
    l.ends, l.name = ends, name
    call('LSET', l.key, format('%d', n), use_text(ends, part, name))
  end
  call('LTRIM', l.key, '0', format('%d', n))
  l.newest, l.newest_name = newest, newest_name
  if l.ends == newest and l.name == newest_name then
    l.newest, l.newest_name = '', ''
  end
  save_less(l)
  return told
end

-- Gives back the newest units, or a use by its name: of the last one also a part.
local function give_back_to_log(l, p, used, cost, us, ns)
  if us == 0 and ns == 0 then
    local kept = l.units - (cost < used and cost or used)
    if used == 0 then
      return tell(l, used)
    end
    local q = walk(l, p, function(units)
      return units > kept
    end)
    return cut_log(l, p, used, q, kept - q.units)
  end
  local at = seek(l, p, function(ends, other)
    local other_us, other_ns = name_of(ends, other)
    return is_later(us, ns, other_us, other_ns)
  end)
  local ends, units, own = use_of(at <= l.n and call('LINDEX', l.key, format('%d', at)))
  local own_us, own_ns = name_of(ends, own)
  if own_us ~= us or own_ns ~= ns or (cost < units and at < l.n) then
    return tell(l, used)
  end
  if at == l.n then
    local k, from = group_of(l, at)
    local _, group_units = group(l, k)
    return cut_log(l, p, used, {n = at - 1, units = l.units - units, group = k, from = from,
      from_units = l.units - group_units}, cost < units and units - cost or 0)
  end
  local newest, newest_name = newest_of(l)
  local told = l.head .. use_text(ends, units, own) .. ' ' .. use_text(l.ends, used - units, l.name) ..
    (l.newest ~= '' and ' ' .. use_text(newest, 0, newest_name) or '')
  save_less(l, take_out(l, at, ends, units, own, units))
  return told
end

-- A clock that was set back since wrote the newest use: all is in use from now on, as one.
local function move_log(l, units, ends)
  local moved = {key = l.key, head = l.head, wide = l.wide, is_new = true, is_other = true,
    n = 1, units = units, bare = 0, groups = '', ends = ends, name = '', newest = '',
    newest_name = '', trim = 0}
  return moved, {false, false, use_text(ends, units, '')}
end

-- Forgets the oldest uses while the others alone fill the limit. Returns the list and the place anew.
local function forget_replaced(l, p, limit, us, ns)
  local q = walk(l, p, function(units)
    return l.units - units < limit
  end)
  if q.n == p.n then
    return l, p
  end
  drop(l, q)
  call('LTRIM', l.key, format('%d', l.trim), '-1')
  call('LSET', l.key, '0', write_first(l))
  l = open(l.key, l.head)
  return l, spent(l, us, ns)
end

-- head; numbers: what to do (8 more: it replaces the oldest uses), wanted, cost, limit; how long a use
-- counts: us and ns; block; for a refund a name, or 0
function kinds.log(a, first, last, dry)
  local head = args[a]
  local op, wanted, cost, limit, life, life_ns, block, name_us, name_ns =
    unpacked('<ddddddddd', args[a + 1])
  local granted, replaces = wanted, op >= 8
  op = op % 8

  for i = first, last do
    local l = open(keys[i], head)
    local newest, newest_name = newest_of(l)
    local newest_us, newest_ns = time_of(newest)
    -- Now, or when the newest use was if that is later.
    local us, ns = newest_us - life, newest_ns - life_ns
    if ns < 0 then
      us, ns = us - 1, ns + 1000
    end
    local is_far = is_later(us, ns, now + SKEW, now_ns)
    if not is_later(us, ns, now, now_ns) then
      us, ns = now, now_ns
    end
    local p = spent(l, us, ns)
    if replaces and not is_far and not dry then
      l, p = forget_replaced(l, p, limit, us, ns)
    end
    local used, told = p.n < l.n and l.units - p.units or 0, nil
    local in_use, fresh = used, {false, false}
    granted = wanted
    if is_far then
      us, ns = now, now_ns
    end
    us, ns = us + life, ns + life_ns
    if ns >= 1000 then
      us, ns = us + 1, ns - 1000
    end
    if is_far and used > 0 then
      told, in_use = tell(l, used), used < limit and used or limit
      l, fresh = move_log(l, in_use, time_text(us, ns))
    end

    if op == ACQUIRE or op == PEEK then
      granted = replaces and not is_far and wanted or fit(in_use, wanted, cost, limit)
      local goes = used + (granted + 1) * cost - limit
      if told then
      elseif granted < wanted and goes < used then
        local q = walk(l, p, function(units)
          return units >= p.units + goes
        end)
        local ends, units = use_of(element(l, q.n + 1))
        told = tell(l, used, ends, q.units + units - p.units)
      else
        told = tell(l, used)
      end
      if op == ACQUIRE and not dry and (granted > 0 or (is_far and used > 0)) then
        local more = granted
        if is_far and used > 0 then
          if granted > 0 then -- the first is one with all
            l.units, more = in_use + cost, granted - 1
            fresh[3] = use_text(l.ends, l.units, '')
          end
          if more > 0 then
            add_to_log(l, fresh, more, cost, us, ns, us, ns)
          end
        else
          drop(l, p)
          local after_us, after_ns = name_of(newest, newest_name)
          if is_far then
            after_us, after_ns = 0, 0
          end
          add_to_log(l, fresh, granted, cost, us, ns, after_us, after_ns)
        end
        save(l, fresh, us, newest_us, block)
      end
    elseif dry then
      told = told or tell(l, used)
    else
      if is_far and used > 0 then
        save(l, fresh, us, newest_us, block)
        l = open(keys[i], head)
        p = start()
      end
      if op == REFUND then
        local said = give_back_to_log(l, p, in_use, cost, name_us, name_ns)
        told = told or said
      elseif l.is_other then
        told = '?'
        call('DEL', keys[i])
      else
        told = told or tell(l, in_use)
        if in_use > 0 then
          l.newest, l.newest_name = newest_of(l)
          l.n, l.units, l.groups, l.ends, l.name = 0, 0, '', '', ''
          call('LTRIM', l.key, '0', '0')
          save_less(l)
        end
      end
    end
    values[i] = told
    if granted ~= wanted then
      note(i, granted)
    end
  end
  return a + 2, granted == wanted
end
