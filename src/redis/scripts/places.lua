-- concurrency: a list of uses (uses.lua), named by permits: those that carry none have no name.

local function is_before_place(ends, name, than, than_name)
  local us, ns = time_of(ends)
  local than_us, than_ns = time_of(than)
  if us ~= than_us or ns ~= than_ns then
    return is_later(than_us, than_ns, us, ns)
  end
  return (tonumber(name) or 0) < (tonumber(than_name) or 0)
end

-- In its place among others, as where a clock lags.
local function insert_place(l, ends, units, name)
  local at = seek(l, start(), function(other, other_name)
    return is_before_place(other, other_name, ends, name)
  end)
  local other = call('LINDEX', l.key, format('%d', at))
  local other_ends, other_units, other_name = use_of(other)
  local k, before = group_of(l, at)
  local bare = name == '' and units or 0
  if other_ends == ends and other_name == name then
    call('LSET', l.key, format('%d', at), use_text(ends, other_units + units, name))
    change(l, k, 0, units, bare)
  else
    call('LINSERT', l.key, 'BEFORE', other, use_text(ends, units, name))
    change(l, k, 1, units, bare)
    split_group(l, k, before)
  end
  call('LSET', l.key, '0', write_first(l))
end

-- Leases that a clock since set back has put too far ahead begin now.
local function cut_back(l, p, us, ns, block)
  local uses, fresh, known = {}, {false, false}, {}
  local ends = time_text(us, ns)
  for n = p.n + 1, l.n do
    local own, units, name = use_of(element(l, n))
    local own_us, own_ns = time_of(own)
    if is_later(own_us, own_ns, us + SKEW, ns) then
      own = ends
    end
    local same = known[own .. ':' .. name]
    if same then
      same[2] = same[2] + units
    else
      same = {own, units, name}
      known[own .. ':' .. name], uses[#uses + 1] = same, same
    end
  end
  table.sort(uses, function(one, other)
    return is_before_place(one[1], one[3], other[1], other[3])
  end)
  local empty = {key = l.key, head = l.head, wide = l.wide, named = true, is_new = true,
    is_other = true, n = 0, units = 0, bare = 0, groups = '', newest = '', newest_name = '', trim = 0}
  for n, use in ipairs(uses) do
    append(empty, 1, use[2], use[3] == '' and use[2] or 0)
    empty.ends, empty.name = use[1], use[3]
    fresh[#fresh + 1] = use_text(use[1], use[2], use[3])
    if #fresh > 1000 or n == #uses then
      save(empty, fresh, (time_of(use[1])), 0, block)
      empty.is_new, fresh = false, {false, false}
    end
  end
end

-- What a refund takes from: the use that ends then, or the newest ones under the name.

local function find_place(l, p, cost, ends, name)
  local at = seek(l, p, function(other, other_name)
    return is_before_place(other, other_name, ends, name)
  end)
  local own, units, own_name = use_of(at <= l.n and call('LINDEX', l.key, format('%d', at)))
  local found, _ = {left = cost, units = 0}, nil
  if own ~= ends or own_name ~= name then
    return found
  end
  found.ends, found.units, found.left = own, units, cost - units
  if at < l.n then
    found.rest, found.rest_name = l.ends, l.name
  elseif at > p.n + 1 then
    found.rest, _, found.rest_name = use_of(call('LINDEX', l.key, format('%d', at - 1)))
  end
  found.group = take_out(l, at, own, units, name, cost < units and cost or units)
  return found
end

local function find_newest_places(l, p, cost, name)
  local found, k, from = {left = cost, units = 0}, group_count(l), l.n
  while from > p.n and (found.left > 0 or not found.rest) do
    local n, _, bare = group(l, k)
    local has_some = found.left > 0 and (name ~= '' or bare > 0)
    local least = has_some and from - n + 1 or from
    local page = call('LRANGE', l.key, format('%d', least), format('%d', from))
    for at = from, least > p.n and least or p.n + 1, -1 do
      local own, units, own_name = use_of(page[at - least + 1])
      if found.left > 0 and own_name == name then
        take_out(l, at, own, units, name, found.left < units and found.left or units)
        found.ends, found.units, found.left = own, found.units + units, found.left - units
      elseif not found.rest then
        found.rest, found.rest_name = own, own_name
      end
    end
    from, k = from - n, k - 1
  end
  for i = group_count(l), 1, -1 do
    join_group(l, i)
  end
  return found
end

local function give_back_places(l, p, used, cost, ends, name)
  local found
  if ends ~= '' then
    found = find_place(l, p, cost, ends, name)
  else
    found = find_newest_places(l, p, cost, name)
  end
  if not found.ends then
    return tell(l, used)
  end
  local mine = use_text(found.ends, found.units, name == '' and '0' or name)
  local last, last_name, told, _ = found.rest, found.rest_name, l.head .. mine, nil
  if last then
    local is_last = is_before_place(last, last_name, found.ends, name)
    local rest = use_text(last, used - found.units, last_name == '' and '0' or last_name)
    told = l.head .. (is_last and rest .. ' ' .. mine or mine .. ' ' .. rest)
    if is_last and found.left < 0 then
      last, last_name = found.ends, name
    end
  elseif found.left < 0 then
    last, last_name = found.ends, name
  elseif p.n > 0 then
    last, _, last_name = use_of(call('LINDEX', l.key, format('%d', p.n)))
  end
  if l.n == 0 then
    call('DEL', l.key)
  else
    l.ends, l.name = last, last_name
    save_less(l, found.group)
  end
  return told
end

local function take_places(l, p, units, us, ns, name, block)
  local ends, before_us = time_text(us, ns), time_of(l.ends)
  local bare = name == '' and units or 0
  if l.ends ~= '' and not is_before_place(l.ends, l.name, ends, name) then
    insert_place(l, ends, units, name)
    return
  end
  drop(l, p)
  append(l, 1, units, bare)
  l.ends, l.name = ends, name
  save(l, {false, false, use_text(ends, units, name)}, us, before_us, block)
end

-- head; numbers: what to do, wanted, cost, limit; how long a lease is: us and ns; block; for a refund
-- when its lease ends, or 0: us and ns; the permit's name, or 0
function kinds.places(a, first, last, dry)
  local head = args[a]
  local op, wanted, cost, limit, us, ns, block, ends_us, ends_ns, permit =
    unpacked('<dddddddddd', args[a + 1])
  local ends = ends_us + ends_ns > 0 and time_text(ends_us, ends_ns) or ''
  local name, granted = permit > 0 and format('%d', permit) or '', wanted
  us, ns = now + us, now_ns + ns
  if ns >= 1000 then
    us, ns = us + 1, ns - 1000
  end

  for i = first, last do
    local l = open(keys[i], head, true)
    local p = spent(l, now, now_ns)
    local used, told = p.n < l.n and l.units - p.units or 0, nil
    granted = wanted
    if op == ACQUIRE or op == PEEK then
      local last_us, last_ns = time_of(l.ends)
      if op == ACQUIRE and not dry and used > 0 and is_later(last_us, last_ns, us + SKEW, ns) then
        cut_back(l, p, us, ns, block)
        l, p = open(keys[i], head, true), start()
      end
      granted = fit(used, wanted, cost, limit)
      if granted < wanted and used > 0 then
        told = tell(l, used, use_of(element(l, p.n + 1)))
      else
        told = tell(l, used)
      end
      if op == ACQUIRE and not dry and granted > 0 then
        take_places(l, p, granted * cost, us, ns, name, block)
      end
    elseif op == REFUND and not dry then
      told = give_back_places(l, p, used, cost, ends, name)
    else
      told = l.is_other and '?' or tell(l, used)
      if op == RESET and not dry then
        call('DEL', keys[i])
      end
    end
    values[i] = told
    if granted ~= wanted then
      note(i, granted)
    end
  end
  return a + 2, granted == wanted
end
