-- Decides operations on sliding_log, a list of uses (uses.lua). A use has a name if that is not its
-- end; names are unique.

-- Returns the groups of a list of n uses with so many units, after a use of `cost` units is appended
-- and, if `gone` is passed, the first use, of `gone` units, is removed.
local function regroup(groups, n, units, cost, gone)
  local form = ' %05d:%05d'
  if groups == '' and n < LONG then
    return ''
  elseif groups == '' then
    groups = format(form, n, units)
  end
  local size = read_count(groups, -11)
  if size < LONG then
    groups = sub(groups, 1, -13) .. format(form, size + 1, read_count(groups, -5) + cost)
  else
    groups = groups .. format(form, 1, cost)
  end
  if gone then
    size = read_count(groups, 2)
    groups = (size > 1 and format(form, size - 1, read_count(groups, 8) - gone) or '') ..
      sub(groups, 13)
  end
  return groups
end

-- Decides the operations that the common case does not cover, as one function.
local function any_log()
  local list = uses()

  -- A use's name, or its end if it has none, in microseconds and nanoseconds.
  local function name_of(ends, name)
    if name == '' then
      return time_of(ends)
    end
    return tonumber(sub(name, 1, -4)) or 0, tonumber(sub(name, -3)) or 0
  end

  -- The end and name of the newest use, even if that was refunded.
  local function newest_of(l)
    if l.newest ~= '' then
      return l.newest, l.newest_name
    end
    return l.ends, l.name
  end

  -- Appends the uses of `granted` requests, all with this end. Their names follow the newest one's, or
  -- begin with the end.
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
      fresh[#fresh + 1] = list.use_text(ends, cost, name)
      name_ns = name_ns + 1
    end
    list.append(l, granted, cost, 0)
    l.ends, l.name, l.newest, l.newest_name = ends, name, '', ''
  end

  -- Finds where the last `back` units begin, and the part of the first use that does not belong to
  -- them.
  local function before_last(l, back)
    local k, n, units = list.group_count(l), l.n, l.units
    local size, all = list.group(l, k)
    while back >= all and k > 1 do
      back, n, units, k = back - all, n - size, units - all, k - 1
      size, all = list.group(l, k)
    end
    local from, from_units, few, part = n - size, units - all, 8, 0
    while back > 0 and n > from do
      local low = n - few > from and n - few or from
      local page = call('LRANGE', l.key, format('%d', low + 1), format('%d', n))
      for j = n - low, 1, -1 do
        local _, u = list.use_of(page[j])
        if back == 0 then
          break
        end
        part = u > back and u - back or 0
        back, n, units = u > back and 0 or back - u, n - 1, units - u
      end
      few = few * 4
    end
    return {n = n, units = units, group = k, from = from, from_units = from_units}, part
  end

  -- Refunds the uses after a position, except `part` units of the first of them.
  local function cut_log(l, p, q, part)
    local newest, newest_name = newest_of(l)
    local before, _, before_name = list.use_of(q.n > 0 and call('LINDEX', l.key, format('%d', q.n)))
    local ends, _, name = list.use_of(call('LINDEX', l.key, format('%d', q.n + 1)))
    local described = l.head ..
      (q.n > p.n and list.use_text(before, q.units - p.units, before_name) .. ' ' or '') ..
      list.use_text(ends, l.units - q.units, name) ..
      (l.newest ~= '' and ' ' .. list.use_text(newest, 0, newest_name) or '')
    local n = q.n + (part > 0 and 1 or 0)
    if l.groups ~= '' then
      l.groups = sub(l.groups, 1, (q.group - 1) * l.wide) ..
        list.group_text(l, n - q.from, q.units + part - q.from_units, 0)
    end
    l.n, l.units, l.ends, l.name = n, q.units + part, before, before_name
    if part > 0 then
      l.ends, l.name = ends, name
      call('LSET', l.key, format('%d', n), list.use_text(ends, part, name))
    end
    call('LTRIM', l.key, '0', format('%d', n))
    l.newest, l.newest_name = newest, newest_name
    if l.ends == newest and l.name == newest_name then
      l.newest, l.newest_name = '', ''
    end
    list.save_less(l)
    return described
  end

  -- Refunds the newest units, or units of the use with a name.
  local function give_back_to_log(l, p, used, cost, us, ns)
    if us == 0 and ns == 0 then
      if used == 0 then
        return list.describe(l, used)
      end
      return cut_log(l, p, before_last(l, cost < used and cost or used))
    end
    local at = list.seek(l, p, function(text)
      local ends, _, other = list.use_of(text)
      local other_us, other_ns = name_of(ends, other)
      return is_later(us, ns, other_us, other_ns)
    end)
    local ends, units, own = list.use_of(at <= l.n and call('LINDEX', l.key, format('%d', at)))
    local own_us, own_ns = name_of(ends, own)
    if own_us ~= us or own_ns ~= ns then
      return list.describe(l, used)
    end
    if at == l.n then
      local k, from = list.group_of(l, at)
      local _, group_units = list.group(l, k)
      return cut_log(l, p, {n = at - 1, units = l.units - units, group = k, from = from,
        from_units = l.units - group_units}, cost < units and units - cost or 0)
    end
    local newest, newest_name = newest_of(l)
    local described = l.head .. list.use_text(ends, units, own) .. ' ' ..
      list.use_text(l.ends, used - units, l.name) ..
      (l.newest ~= '' and ' ' .. list.use_text(newest, 0, newest_name) or '')
    local k = list.take_out(l, at, ends, units, own, cost < units and cost or units)
    list.save_less(l, k, k)
    return described
  end

  -- Moves a log whose newest use was written by a clock that was set back since: all units count from
  -- now on, as one use.
  local function move_log(l, units, ends)
    local moved = {key = l.key, head = l.head, wide = l.wide, is_new = true, is_other = true,
      n = 1, units = units, bare = 0, groups = '', ends = ends, name = '', newest = '',
      newest_name = '', trim = 0}
    return moved, {false, false, list.use_text(ends, units, '')}
  end

  -- Removes the oldest uses while the others alone fill the limit. Returns the new list and position.
  local function forget_replaced(l, p, limit, us, ns)
    local q = list.walk(l, p, function(units)
      return l.units - units < limit
    end)
    if q.n == p.n then
      return l, p
    end
    list.drop(l, q)
    call('LTRIM', l.key, format('%d', l.trim), '-1')
    call('LSET', l.key, '0', list.write_first(l))
    l = list.open(l.key, l.head)
    return l, list.spent(l, us, ns)
  end

  return function(i, head, op, wanted, cost, limit, life, life_ns, block, name_us, name_ns, dry)
    local takes, replaces = op == ACQUIRE or op == REPLACE, op == REPLACE or op == REFUND_REPLACED
    local l = list.open(keys[i], head)
    local newest, newest_name = newest_of(l)
    local newest_us, newest_ns = time_of(newest)
    -- Now, or the time of the newest use if that is later.
    local us, ns = newest_us - life, newest_ns - life_ns
    if ns < 0 then
      us, ns = us - 1, ns + 1000
    end
    local is_far = is_later(us, ns, now + list.SKEW, now_ns)
    if not is_later(us, ns, now, now_ns) then
      us, ns = now, now_ns
    end
    local p = list.spent(l, us, ns)
    if replaces and not is_far and not dry then
      l, p = forget_replaced(l, p, limit, us, ns)
    end
    local used, described = p.n < l.n and l.units - p.units or 0, nil
    local in_use, fresh = used, {false, false}
    local granted = wanted
    if is_far then
      us, ns = now, now_ns
    end
    us, ns = us + life, ns + life_ns
    CARRY(us, ns)
    if is_far and used > 0 then
      described, in_use = list.describe(l, used), used < limit and used or limit
      l, fresh = move_log(l, in_use, time_text(us, ns))
    end

    if takes or op == PEEK then
      granted = replaces and not is_far and wanted or list.fit(in_use, wanted, cost, limit)
      local goes = used + (granted + 1) * cost - limit
      if described then
      elseif granted < wanted and goes < used then
        local q = list.walk(l, p, function(units)
          return units >= p.units + goes
        end)
        local ends, units = list.use_of(list.element(l, q.n + 1))
        described = list.describe(l, used, ends, q.units + units - p.units)
      else
        described = list.describe(l, used)
      end
      if takes and not dry and (granted > 0 or (is_far and used > 0)) then
        local more = granted
        if is_far and used > 0 then
          if granted > 0 then -- the first is one with all
            l.units, more = in_use + cost, granted - 1
            fresh[3] = list.use_text(l.ends, l.units, '')
          end
          if more > 0 then
            add_to_log(l, fresh, more, cost, us, ns, us, ns)
          end
        else
          list.drop(l, p)
          local after_us, after_ns = name_of(newest, newest_name)
          if is_far then
            after_us, after_ns = 0, 0
          end
          add_to_log(l, fresh, granted, cost, us, ns, after_us, after_ns)
        end
        list.save(l, fresh, us, newest_us, block)
      end
    elseif dry then
      described = described or list.describe(l, used)
    else
      if is_far and used > 0 then
        list.save(l, fresh, us, newest_us, block)
        l = list.open(keys[i], head)
        p = list.start()
      end
      if op ~= RESET then
        local after_refund = give_back_to_log(l, p, in_use, cost, name_us, name_ns)
        described = described or after_refund
      elseif l.is_other then
        described = '?'
        call('DEL', keys[i])
      else
        described = described or list.describe(l, in_use)
        if in_use > 0 then
          l.newest, l.newest_name = newest_of(l)
          l.n, l.units, l.groups, l.ends, l.name = 0, 0, '', '', ''
          call('LTRIM', l.key, '0', '0')
          list.save_less(l)
        end
      end
    end
    values[i] = described
    return granted
  end
end

-- Arguments: the header; numbers: the operation, wanted, cost, limit; how long a use counts, us and ns;
-- block; for a refund a name, or 0.
function kinds.log(a, first, last, dry)
  local head, op, wanted, cost, limit, life, life_ns, block, name_us, name_ns =
    unpacked('<sddddddddd', args[a])
  local length, granted, any = #head, wanted, nil
  local at, size, until_us = length + 1, length + 29, now + life
  local is_plain = op <= PEEK and wanted == 1 and now_ns == 0 and life_ns == 0
  local ends, use

  for i = first, last do
    local key = keys[i]
    granted = nil
    if is_plain then
      local page = pcall('LRANGE', key, '0', '2')
      local text, live, dropped = page[1], page[2], 0
      ends = ends or format('%d', until_us)
      use = use or ends .. format(':%d', cost)
      if not text and not page.err then
        granted, values[i] = 1, false
        if op == ACQUIRE and not dry then
          call('RPUSH', key, head .. format('00001:%05d ', cost) .. ends, use)
          expire(key, until_us, block)
        end
      elseif live and find(text, head, 1, true) == 1 and (byte(text, size) or 32) == 32 then
        local n, units = read_count(text, at), read_count(text, at + 6)
        local newest = read_end(text, length + 13)
        local oldest = byte(live, 17) == 58 and read_end(live, 1)
        local left = units
        if n and oldest and oldest <= now and page[3] and byte(page[3], 17) == 58 then
          local gone = tonumber(sub(live, 18)) -- nil: it has a name
          dropped, left, live = 1, units - (gone or 0), page[3]
          oldest = gone and read_end(live, 1)
        end
        if n and oldest and oldest > now and newest and newest < until_us then
          local newest_text = sub(text, length + 13, length + 28)
          if left + cost <= limit then
            granted, values[i] = 1, head .. newest_text .. ':' ..
              (dropped == 0 and sub(text, length + 7, length + 11) or format('%d', left))
            if op == ACQUIRE and not dry then
              call('RPUSH', key, use)
              if dropped > 0 then
                call('LPOP', key)
              end
              call('LSET', key, '0', head .. format('%05d:%05d ', n + 1 - dropped, left + cost) ..
                ends .. regroup(sub(text, size), n, units, cost,
                  dropped > 0 and units - left))
              if floor(until_us / block) ~= floor(newest / block) then
                expire(key, until_us, block)
              end
            end
          else
            local room = tonumber(sub(live, 18)) or 0
            if room >= left + cost - limit then
              granted, values[i] = 0, head .. (room < left and live .. ' ' or '') .. newest_text ..
                format(':%d', room < left and left - room or left)
            end
          end
        end
      end
    end
    if not granted then
      any = any or any_log()
      granted = any(i, head, op, wanted, cost, limit, life, life_ns, block, name_us, name_ns, dry)
    end
    NOTE_PART(i)
  end
  return a + 1, granted == wanted
end
