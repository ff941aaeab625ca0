-- concurrency: a list of uses (uses.lua), named by permits: those that carry none have no name.

-- What is asked of any list, as one function.
local function any_places()
  local list = uses()

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
    local at = list.seek(l, list.start(), function(other, other_name)
      return is_before_place(other, other_name, ends, name)
    end)
    local other = call('LINDEX', l.key, format('%d', at))
    local other_ends, other_units, other_name = list.use_of(other)
    local k, before = list.group_of(l, at)
    local bare = name == '' and units or 0
    if other_ends == ends and other_name == name then
      call('LSET', l.key, format('%d', at), list.use_text(ends, other_units + units, name))
      list.change(l, k, 0, units, bare)
    else
      call('LINSERT', l.key, 'BEFORE', other, list.use_text(ends, units, name))
      list.change(l, k, 1, units, bare)
      list.split_group(l, k, before)
    end
    call('LSET', l.key, '0', list.write_first(l))
  end

  -- Leases that a clock since set back has put too far ahead begin now.
  local function cut_back(l, p, us, ns, block)
    local all, fresh, known = {}, {false, false}, {}
    local ends = time_text(us, ns)
    for n = p.n + 1, l.n do
      local own, units, name = list.use_of(list.element(l, n))
      local own_us, own_ns = time_of(own)
      if is_later(own_us, own_ns, us + list.SKEW, ns) then
        own = ends
      end
      local same = known[own .. ':' .. name]
      if same then
        same[2] = same[2] + units
      else
        same = {own, units, name}
        known[own .. ':' .. name], all[#all + 1] = same, same
      end
    end
    table.sort(all, function(one, other)
      return is_before_place(one[1], one[3], other[1], other[3])
    end)
    local empty = {key = l.key, head = l.head, wide = l.wide, named = true, is_new = true,
      is_other = true, n = 0, units = 0, bare = 0, groups = '', newest = '',
      newest_name = '', trim = 0}
    for n, use in ipairs(all) do
      list.append(empty, 1, use[2], use[3] == '' and use[2] or 0)
      empty.ends, empty.name = use[1], use[3]
      fresh[#fresh + 1] = list.use_text(use[1], use[2], use[3])
      if #fresh > 1000 or n == #all then
        list.save(empty, fresh, (time_of(use[1])), 0, block)
        empty.is_new, fresh = false, {false, false}
      end
    end
  end

  -- What a refund takes from: the use that ends then, or the newest ones under the name.

  local function find_place(l, p, cost, ends, name)
    local at = list.seek(l, p, function(other, other_name)
      return is_before_place(other, other_name, ends, name)
    end)
    local own, units, own_name = list.use_of(at <= l.n and call('LINDEX', l.key, format('%d', at)))
    local found, _ = {left = cost, units = 0}, nil
    if own ~= ends or own_name ~= name then
      return found
    end
    found.ends, found.units, found.left = own, units, cost - units
    if at < l.n then
      found.rest, found.rest_name = l.ends, l.name
    elseif at > p.n + 1 then
      found.rest, _, found.rest_name = list.use_of(call('LINDEX', l.key, format('%d', at - 1)))
    end
    found.group = list.take_out(l, at, own, units, name, cost < units and cost or units)
    return found
  end

  local function find_newest_places(l, p, cost, name)
    local found, k, from = {left = cost, units = 0}, list.group_count(l), l.n
    while from > p.n and (found.left > 0 or not found.rest) do
      local n, _, bare = list.group(l, k)
      local has_some = found.left > 0 and (name ~= '' or bare > 0)
      local least = has_some and from - n + 1 or from
      local page = call('LRANGE', l.key, format('%d', least), format('%d', from))
      for at = from, least > p.n and least or p.n + 1, -1 do
        local own, units, own_name = list.use_of(page[at - least + 1])
        if found.left > 0 and own_name == name then
          list.take_out(l, at, own, units, name, found.left < units and found.left or units)
          found.ends, found.units, found.left = own, found.units + units, found.left - units
        elseif not found.rest then
          found.rest, found.rest_name = own, own_name
        end
      end
      from, k = from - n, k - 1
    end
    for i = list.group_count(l), 1, -1 do
      list.join_group(l, i)
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
      return list.tell(l, used)
    end
    local mine = list.use_text(found.ends, found.units, name == '' and '0' or name)
    local last, last_name, told, _ = found.rest, found.rest_name, l.head .. mine, nil
    if last then
      local is_last = is_before_place(last, last_name, found.ends, name)
      local rest = list.use_text(last, used - found.units, last_name == '' and '0' or last_name)
      told = l.head .. (is_last and rest .. ' ' .. mine or mine .. ' ' .. rest)
      if is_last and found.left < 0 then
        last, last_name = found.ends, name
      end
    elseif found.left < 0 then
      last, last_name = found.ends, name
    elseif p.n > 0 then
      last, _, last_name = list.use_of(call('LINDEX', l.key, format('%d', p.n)))
    end
    if l.n == 0 then
      call('DEL', l.key)
    else
      l.ends, l.name = last, last_name
      list.save_less(l, found.group)
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
    list.drop(l, p)
    list.append(l, 1, units, bare)
    l.ends, l.name = ends, name
    list.save(l, {false, false, list.use_text(ends, units, name)}, us, before_us, block)
  end

  return function(i, head, op, wanted, cost, limit, us, ns, block, ends, name, dry)
    local l = list.open(keys[i], head, true)
    local p = list.spent(l, now, now_ns)
    local used, told = p.n < l.n and l.units - p.units or 0, nil
    local granted = wanted
    if op == ACQUIRE or op == PEEK then
      local last_us, last_ns = time_of(l.ends)
      if op == ACQUIRE and not dry and used > 0 and
        is_later(last_us, last_ns, us + list.SKEW, ns) then
        cut_back(l, p, us, ns, block)
        l, p = list.open(keys[i], head, true), list.start()
      end
      granted = list.fit(used, wanted, cost, limit)
      if granted < wanted and used > 0 then
        told = list.tell(l, used, list.use_of(list.element(l, p.n + 1)))
      else
        told = list.tell(l, used)
      end
      if op == ACQUIRE and not dry and granted > 0 then
        take_places(l, p, granted * cost, us, ns, name, block)
      end
    elseif op == REFUND and not dry then
      told = give_back_places(l, p, used, cost, ends, name)
    else
      told = l.is_other and '?' or list.tell(l, used)
      if op == RESET and not dry then
        call('DEL', keys[i])
      end
    end
    values[i] = told
    return granted
  end
end

-- head; numbers: what to do, wanted, cost, limit; how long a lease is: us and ns; block; for a
-- refund when its lease ends, or 0: us and ns; the permit's name, or 0
function kinds.places(a, first, last, dry)
  local head = args[a]
  local op, wanted, cost, limit, us, ns, block, ends_us, ends_ns, permit =
    unpacked('<dddddddddd', args[a + 1])
  local ends = ends_us == 0 and ends_ns == 0 and '' or
    format(ends_ns == 0 and '%d' or '%d%03d', ends_us, ends_ns)
  local length, granted, any = #head, wanted, nil
  local name, bare = permit > 0 and format('%d', permit) or '', permit > 0 and 0 or cost
  us, ns = now + us, now_ns + ns
  if ns >= 1000 then
    us, ns = us + 1, ns - 1000
  end
  local is_plain, new_ends, use = now_ns == 0 and ns == 0 and wanted == 1, nil, nil
  if op == REFUND then
    is_plain = not dry and ends_us > now and ends_ns == 0
    use = is_plain and ends .. format(':%d', cost) .. (name ~= '' and ':' .. name or '')
  elseif op == RESET then
    is_plain = false
  elseif is_plain then
    new_ends = format('%d', us)
    use = new_ends .. format(':%d', cost) .. (name ~= '' and ':' .. name or '')
  end

  for i = first, last do
    local key = keys[i]
    granted = nil
    if is_plain then
      local page = pcall('LRANGE', key, '0', '1')
      local text, oldest = page[1], page[2]
      if not text and not page.err then
        granted, values[i] = 1, false
        if op == ACQUIRE and not dry then
          call('RPUSH', key, head .. format('00001:%05d:%05d ', cost, bare) ..
            new_ends .. (name ~= '' and ':' .. name or ''), use)
          expire(key, us, block)
        end
      elseif oldest and find(text, head, 1, true) == 1 and byte(oldest, 17) == 58 then
        local n, units = read_sums(text, length + 1)
        local nameless = tonumber(sub(text, length + 13, length + 17))
        local newest = read_end(text, length + 19)
        local rest, old = find(text, ' ', length + 20, true) or #text + 1, read_end(oldest, 1)
        local mark = byte(text, length + 35)
        if not n or not nameless or not newest or not old or old <= now or
          (mark and mark ~= 58 and mark ~= 32) then -- that is for the other function
          granted = nil
        elseif op == REFUND then
          if rest > #text and call('LREM', key, '1', use) == 1 then
            local kept = sub(text, length + 19)
            granted, values[i] = 1, use .. (name == '' and ':0' or '')
            if n == 1 then
              call('DEL', key)
            else
              if kept == ends .. (name ~= '' and ':' .. name or '') then -- it was the last one
                local own, _, own_name =
                  string.match(call('LINDEX', key, '-1'), '^(%d+):(%d+):?(%d*)')
                kept = own .. (own_name ~= '' and ':' .. own_name or '')
                values[i] = own .. format(':%d:', units - cost) ..
                  (own_name ~= '' and own_name or '0') .. ' ' .. values[i]
              else
                values[i] = values[i] .. ' ' .. sub(kept, 1, 16) .. format(':%d', units - cost) ..
                  (#kept > 16 and sub(kept, 17) or ':0')
              end
              call('LSET', key, '0', head .. format('%05d:%05d:%05d ', n - 1, units - cost,
                nameless - bare) .. kept)
            end
            values[i] = head .. values[i]
          end
        elseif newest < us then
          if units + cost <= limit then
            granted, values[i] = 1, head .. sub(text, length + 19, length + 34) .. ':' ..
              sub(text, length + 7, length + 11)
            if op == ACQUIRE and not dry then
              call('RPUSH', key, use)
              call('LSET', key, '0', head .. format('%05d:%05d:%05d ', n + 1, units + cost,
                nameless + bare) .. new_ends .. (name ~= '' and ':' .. name or '') ..
                regroup(sub(text, rest), n, units, nameless, cost, bare))
              if floor(us / block) ~= floor(newest / block) then
                expire(key, us, block)
              end
            end
          elseif newest > old then
            local first_units = tonumber(string.match(oldest, '^:(%d+)', 17)) or units
            granted, values[i] = 0, head .. sub(oldest, 1, 16) .. format(':%d ', first_units) ..
              sub(text, length + 19, length + 34) .. format(':%d', units - first_units)
          end
        end
      end
    end
    if not granted then
      any = any or any_places()
      granted = any(i, head, op, wanted, cost, limit, us, ns, block, ends, name, dry)
    end
    if granted ~= wanted then
      note(i, granted)
    end
  end
  return a + 2, granted == wanted
end
