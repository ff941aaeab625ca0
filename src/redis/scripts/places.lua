-- Decides operations on `concurrency`, a list of uses (uses.lua) that are named by permits; an acquire
-- without a permit makes a use without a name. Uses that end together have no fixed order: a new one is
-- appended at the end.

local OTHERS = '4294967296' -- no permit's name: a refund does not list other uses one by one

-- Decides the operations that the common case does not cover, as one function.
local function any_places()
  local list = uses()

  -- The first use from p on that ends at that time or later; or only later.
  local function seek_end(l, p, us, ns, is_behind)
    return list.seek(l, p, function(text)
      local own_us, own_ns = time_of(string.match(text, '^%d*'))
      return is_later(us, ns, own_us, own_ns) or (is_behind and own_us == us and own_ns == ns)
    end)
  end

  -- Inserts a use in the order of ends, because a clock lags. Removes expired uses, so that none counts
  -- again when the clock lags further. Until the first element is written, an old use stands there.
  local function insert_place(l, p, us, ns, units, name)
    list.drop(l, p)
    if l.trim > 0 then
      call('LTRIM', l.key, format('%d', l.trim), '-1')
    end
    local at = seek_end(l, list.start(), us, ns, true)
    local k, before = list.group_of(l, at)
    call('LINSERT', l.key, 'BEFORE', call('LINDEX', l.key, format('%d', at)),
      list.use_text(time_text(us, ns), units, name))
    list.change(l, k, 1, units, name == '' and units or 0)
    list.split_group(l, k, before)
    call('LSET', l.key, '0', list.write_first(l))
  end

  -- Shortens leases that a clock has put too far ahead which was set back since: they begin now.
  local function cut_back(l, p, us, ns, block)
    local all, far, later, fresh = {}, {}, {}, {false, false}
    for n = p.n + 1, l.n do
      local own, units, name = list.use_of(list.element(l, n))
      local own_us, own_ns = time_of(own)
      local to = all
      if is_later(own_us, own_ns, us + list.SKEW, ns) then
        own, to = time_text(us, ns), far
      elseif is_later(own_us, own_ns, us, ns) then
        to = later
      end
      to[#to + 1] = {own, units, name}
    end
    for _, others in ipairs({far, later}) do
      for _, use in ipairs(others) do
        all[#all + 1] = use
      end
    end
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

  -- Counts a use from which a refund takes units: a use with the permit's name and end, or one of the
  -- newest. `found` sums these uses as one, which ends as the oldest does. Returns how many units are
  -- taken from the use.
  local function find_use(found, ends, units)
    local back = found.left < units and found.left or units
    found.ends, found.units, found.left = ends, found.units + units, found.left - back
    return back
  end

  -- Removes the name of a use: a permit that has refunded a part can't refund the rest.
  local function unname(l, at, ends, units)
    call('LSET', l.key, format('%d', at), list.use_text(ends, units, ''))
    list.change(l, list.group_of(l, at), 0, 0, units)
    if at == l.n then
      l.name = ''
    end
  end

  local function take_ending(l, p, found, ends, name, part)
    local us, ns = time_of(ends)
    local at, left, mine = seek_end(l, p, us, ns, false), found.left, {}
    local whole = list.use_text(ends, left, name)
    local one = at <= l.n and list.element(l, at) or ''
    if part then
      left = math.huge
    elseif one ~= whole and sub(one, 1, #ends) == ends then -- others end then, too
      at = call('LPOS', l.key, whole, 'RANK', at > l.n / 2 and '-1' or '1') or at
    end
    while left > 0 and at <= l.n do
      local own, units, own_name = list.use_of(list.element(l, at))
      if own ~= ends then
        break
      elseif own_name == name then
        mine[#mine + 1] = {at, units}
        left = left - units
      end
      at = at + 1
    end
    for i = #mine, 1, -1 do
      local own, units = mine[i][1], mine[i][2]
      local back = found.left > 0 and find_use(found, ends, units) or 0
      if back > 0 then
        found.group = list.take_out(l, own, ends, units, name, back)
      end
      if part and back < units then
        unname(l, own, ends, units - back)
      end
    end
  end

  -- Takes units of the newest uses. Counts the uses of a group together, because finding the group of
  -- each would take long.
  local function take_newest(l, p, found, name)
    local k, from = list.group_count(l), l.n
    while from > p.n and found.left > 0 do
      local n, _, bare = list.group(l, k)
      local least = from - n + 1
      if name ~= '' or bare > 0 then
        local page = call('LRANGE', l.key, format('%d', least), format('%d', from))
        local gone, taken = 0, 0
        for at = from, least > p.n and least or p.n + 1, -1 do
          local own, units, own_name = list.use_of(page[at - least + 1])
          if found.left > 0 and own_name == name then
            local back = find_use(found, own, units)
            list.cut_use(l, at, own, units, name, back)
            gone, taken = gone + (back == units and 1 or 0), taken + back
          end
        end
        if taken > 0 then
          list.change(l, k, -gone, -taken, name == '' and -taken or 0)
          found.group = k
        end
      end
      from, k = from - n, k - 1
    end
  end

  local function give_back_places(l, p, used, cost, ends, name, part)
    local found, groups = {left = cost, units = 0}, list.group_count(l)
    if ends ~= '' then
      take_ending(l, p, found, ends, name, part and name ~= '')
      groups = found.group
    else
      take_newest(l, p, found, name)
    end
    if not found.ends then
      return list.describe(l, used)
    end
    if l.n == 0 then
      call('DEL', l.key)
    else
      list.save_less(l, found.group, groups)
    end
    local mine = list.use_text(found.ends, found.units, name == '' and '0' or name)
    if used == found.units then
      return l.head .. mine
    end
    local rest, us, ns = list.use_text(l.ends, used - found.units, OTHERS), time_of(found.ends)
    local is_last = is_later(us, ns, time_of(l.ends))
    return l.head .. (is_last and rest .. ' ' .. mine or mine .. ' ' .. rest)
  end

  local function take_places(l, p, units, us, ns, name, block)
    local last_us, last_ns = time_of(l.ends)
    if is_later(last_us, last_ns, us, ns) then
      insert_place(l, p, us, ns, units, name)
      return
    end
    list.drop(l, p)
    list.append(l, 1, units, name == '' and units or 0)
    l.ends, l.name = time_text(us, ns), name
    list.save(l, {false, false, list.use_text(l.ends, units, name)}, us, last_us, block)
  end

  return function(i, head, limit, us, ns, block, op, wanted, cost, name, ends, dry)
    local l = list.open(keys[i], head, true)
    local p = list.spent(l, now, now_ns)
    local used, described = p.n < l.n and l.units - p.units or 0, nil
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
        described = list.describe(l, used, list.use_of(list.element(l, p.n + 1)))
      else
        described = list.describe(l, used)
      end
      if op == ACQUIRE and not dry and granted > 0 then
        take_places(l, p, granted * cost, us, ns, name, block)
      end
    elseif (op == REFUND or op == REFUND_LAST) and not dry then
      described = give_back_places(l, p, used, cost, ends, name, op == REFUND_LAST)
    else
      described = l.is_other and '?' or list.describe(l, used)
      if op == RESET and not dry then
        call('DEL', keys[i])
      end
    end
    values[i] = described
    return granted
  end
end

-- Orders uses that end together and have equal units by their names, given their texts.
local function has_less_name(one, other)
  return #one < #other or (#one == #other and one < other)
end

-- Arguments: the header; numbers: limit; the length of a lease, us and ns; block. Then for each
-- command: the operation, wanted, cost; the permit's name, or 0; for a refund the end of the lease, us
-- and ns, or 0.
--
-- Consecutive commands on one key read and write the first element of its list once, and push their
-- uses by one command of Redis. The common case is one function, because each function costs as much as
-- a command.
function kinds.places(a, first, last, dry)
  local own, i, any, granted, wanted = args[a + 1], first, nil, nil, nil
  local head, limit, us, ns, block = unpacked('<sdddd', args[a])
  us, ns = now + us, now_ns + ns
  CARRY(us, ns)
  local at, is_whole, new_ends = #head + 1, now_ns == 0 and ns == 0, format('%d', us)

  while i <= last do
    local key, op, cost, name, described, is_plain, is_changed = keys[i], nil, nil, nil, nil, false, false
    -- The sums of the first element as they are by now, and the end and name of the last use. For a
    -- long list also the last group, which grows, and the groups before. And the uses that are not
    -- written yet.
    local n, units, bare, ends, ends_name, ends_us = 0, 0, 0, '', '', 0
    local groups, size, size_units, size_bare, fresh, count = '', nil, nil, nil, {}, 0
    local page = is_whole and pcall('LRANGE', key, '0', '1') or {}
    local text, oldest = page[1], page[2]
    local is_new = not text
    if is_new then
      is_plain = is_whole and not page.err
    elseif oldest and find(text, head, 1, true) == 1 and byte(oldest, 17) == 58 then
      local rest, oldest_us = find(text, ' ', at + 18, true), read_end(oldest, 1)
      n, units, bare = read_count(text, at), read_count(text, at + 6), read_count(text, at + 12)
      ends, ends_name = sub(text, at + 18, at + 33), sub(text, at + 34, (rest or 0) - 1)
      ends_us = read_end(ends, 1)
      is_plain = bare and ends_us and oldest_us and oldest_us > now and
        (ends_name == '' or byte(ends_name) == 58)
      if rest then
        groups, size, size_units, size_bare = sub(text, rest, -19), read_count(text, -17),
          read_count(text, -11), read_count(text, -5)
        is_plain = is_plain and size_bare
      end
    end
    local before_us, short = ends_us, nil

    while i <= last and keys[i] == key do
      local from, permit = (i - first) * 48 + 1, nil
      op, wanted, cost, permit = unpacked('<dddd', own, from)
      name, described = permit > 0 and format(':%d', permit) or '', nil
      if not is_plain then
        break
      elseif op <= PEEK and ends_us <= us then
        granted = units + wanted * cost <= limit and wanted or
          (units < limit and floor((limit - units) / cost) or 0)
        if n == 0 then
          described = false
        elseif granted == wanted then
          described = head .. ends .. format(':%d', units)
        elseif short then
          described = short
        else
          oldest = oldest or call('LINDEX', key, '1') or fresh[1]
          local own_ends, own_units = string.match(oldest, '^(%d+):(%d+)')
          described = head .. (own_ends ~= ends and own_ends .. ':' .. own_units .. ' ' or '') .. ends ..
            format(':%d', own_ends ~= ends and units - own_units or units)
          short = described
        end
        if op == ACQUIRE and granted > 0 and not dry then
          local more = granted * cost
          if (size or n) >= LONG then
            groups = groups .. format(' %05d:%05d:%05d', size or n, size and size_units or units,
              size and size_bare or bare)
            size, size_units, size_bare = 0, 0, 0
          end
          n, units, bare = n + 1, units + more, name == '' and bare + more or bare
          if size then
            size, size_units, size_bare = size + 1, size_units + more,
              name == '' and size_bare + more or size_bare
          end
          count, ends, ends_name, ends_us = count + 1, new_ends, name, us
          fresh[count] = ends .. (more == 1 and ':1' or format(':%d', more)) .. name
          is_changed, short = true, nil
        end
      elseif op == REFUND and not dry and not size then
        local own_us, own_ns = unpacked('<dd', own, from + 32)
        local use = format('%d:%d', own_us, cost) .. name
        if own_us > now and own_ns == 0 and (count == 0 or own_us ~= us) and
          call('LREM', key, '1', use) == 1 then
          granted, described = wanted, name == '' and use .. ':0' or use
          n, units, bare = n - 1, units - cost, name == '' and bare - cost or bare
          is_changed, short, oldest = n > 0, nil, oldest ~= use and oldest or nil
          if n == 0 then
            call('DEL', key)
            is_new, ends_us, before_us = true, 0, 0
          else
            if own_us == ends_us and name == ends_name then -- it was the last one
              ends, ends_name = string.match(call('LINDEX', key, '-1'), '^(%d+):%d+(:?%d*)')
              ends_us = read_end(ends, 1) + (#ends > 16 and 0.5 or 0)
            end
            local others = ends .. format(':%d:', units) .. OTHERS
            described = ends_us < own_us and others .. ' ' .. described or described .. ' ' .. others
          end
          described = head .. described
        end
      end
      if described == nil then
        break
      end
      values[i] = described
      NOTE_PART(i)
      i = i + 1
    end

    if count > 1 then -- in the order of names, as servers of the version before look for them
      table.sort(fresh, has_less_name)
      ends_name = string.match(fresh[count], '^%d+:%d+(:?%d*)')
    end
    if is_changed then
      text = head .. format('%05d:%05d:%05d ', n, units, bare) .. ends .. ends_name ..
        (size and groups .. format(' %05d:%05d:%05d', size, size_units, size_bare) or '')
      if is_new then
        call('RPUSH', key, text, unpack(fresh))
      else
        if count > 0 then
          call('RPUSH', key, unpack(fresh))
        end
        call('LSET', key, '0', text)
      end
      if count > 0 and floor(us / block) ~= floor(before_us / block) then
        expire(key, us, block)
      end
    end
    if described == nil then -- that is for the other function
      local own_us, own_ns = unpacked('<dd', own, (i - first) * 48 + 33)
      any = any or any_places()
      granted = any(i, head, limit, us, ns, block, op, wanted, cost, sub(name, 2),
        (own_us > 0 or own_ns > 0) and time_text(own_us, own_ns) or '', dry)
      NOTE_PART(i)
      i = i + 1
    end
  end
  return a + 2, granted == wanted
end
