-- Reads and writes lists of uses, units with the time until which they count, for sliding_log and
-- concurrency.
--
-- The first element of a list is the header, followed by sums:
--
--   sliding_log m 00002:00003 1767225660345678
--
-- 2 uses with 3 units, and the end of the last one; and its name, if it has one. For `concurrency` a
-- third number counts the units without a name. If a newer use of a log was refunded, its end and name
-- follow after a slash. A use is end:units or end:units:name, in the order of ends, then names. Ends
-- have 16 digits of microseconds or 19 of nanoseconds; names are whole numbers.
--
-- A long list is divided into groups. The first element also has the number of uses and units of each:
-- 00128:00150. So a step reads these numbers and at most one group, not all uses.
--
-- log.lua and places.lua have the code that most steps need. The rest is in functions that are made
-- only when they are needed, because each call of a script makes its functions anew.

local ACQUIRE, PEEK, REFUND, RESET, REPLACE, REFUND_REPLACED, REFUND_LAST = 0, 1, 2, 3, 4, 5, 6
local LONG = 128 -- a group
local FEW = 64 -- uses that are taken from a list one by one
local pcall = redis.pcall
values = values or {} -- lists are not read as values

-- Reads a number of 16 digits; nil if there are fewer.
local function read_end(text, at)
  local b, c, d, e, f, g, h, j, k, l, m, n, o, p, r, s = byte(text, at, at + 15)
  return s and (b * 10000000 + c * 1000000 + d * 100000 + e * 10000 + f * 1000 + g * 100 + h * 10
    + j - 533333328) * 100000000 + k * 10000000 + l * 1000000 + m * 100000 + n * 10000
    + o * 1000 + p * 100 + r * 10 + s - 533333328
end

-- Reads a number of 5 digits: the uses or units of a first element or a group.
local function read_count(text, at)
  local b, c, d, e, f = byte(text, at, at + 4)
  return f and b * 10000 + c * 1000 + d * 100 + e * 10 + f - 533328
end

local function expire(key, us, block)
  call('PEXPIREAT', key, EXPIRY(us - us % block + block))
end

local function uses()
  local match = string.match
  local SKEW = 86400000000

  local function use_text(ends, units, name)
    return ends .. ':' .. format('%d', units) .. (name ~= '' and ':' .. name or '')
  end

  local function use_of(text)
    local ends, units, name = match(text or '', '^(%d+):(%d+):?(%d*)$')
    return ends or '', tonumber(units) or 0, name or ''
  end

  -- Opens the list of a key. A missing list, or another limit's, counts as empty.
  local function open(key, head, named)
    local page = pcall('LRANGE', key, '0', '2')
    local l = {key = key, head = head, page = page, base = 0, size = 4, named = named,
      wide = named and 18 or 12, n = 0, units = 0, bare = 0, groups = '', ends = '', name = '',
      newest = '', newest_name = '', trim = 0}
    local first = page[1]
    local n, units, bare, ends, name, newest, newest_name, at
    if first and sub(first, 1, #head) == head then
      n, units, bare, ends, name, newest, newest_name, at =
        match(first, '^(%d+):(%d+):?(%d*) (%d*):?(%d*)/?(%d*):?(%d*)()', #head + 1)
    end
    if n then
      l.n, l.units, l.bare = tonumber(n), tonumber(units), tonumber(bare) or 0
      l.ends, l.name, l.newest, l.newest_name = ends, name, newest, newest_name
      l.groups = sub(first, at)
    else
      l.is_new, l.is_other = true, first or page.err
    end
    return l
  end

  local function write_first(l)
    return l.head ..
      format(l.named and '%05d:%05d:%05d ' or '%05d:%05d ', l.n, l.units, l.bare) .. l.ends ..
      (l.name ~= '' and ':' .. l.name or '') .. (l.newest ~= '' and '/' .. l.newest or '') ..
      (l.newest_name ~= '' and ':' .. l.newest_name or '') .. l.groups
  end

  -- Returns the n-th use.
  local function element(l, n)
    local at = n - l.base + 1
    if at < 1 or not l.page[at] then
      l.base, at = n, 1
      l.page = call('LRANGE', l.key, format('%d', n), format('%d', n + l.size))
      l.size = l.size < LONG and 2 * l.size or LONG
    end
    return l.page[at]
  end

  -- Each group has three numbers: uses, units, and units without a name.

  local function group_text(l, n, units, bare)
    if n == 0 then
      return ''
    end
    return format(l.named and ' %05d:%05d:%05d' or ' %05d:%05d', n, units, bare)
  end

  local function group_count(l)
    return l.groups == '' and 1 or #l.groups / l.wide
  end

  local function group(l, k)
    if l.groups == '' then
      return l.n, l.units, l.bare
    end
    local at = (k - 1) * l.wide + 2
    return read_count(l.groups, at), read_count(l.groups, at + 6),
      l.named and read_count(l.groups, at + 12) or 0
  end

  -- Replaces the groups k to `last` by one.
  local function set_group(l, k, last, n, units, bare)
    l.groups = sub(l.groups, 1, (k - 1) * l.wide) .. group_text(l, n, units, bare) ..
      sub(l.groups, last * l.wide + 1)
  end

  -- Adds to the numbers of the k-th group.
  local function change(l, k, n, units, bare)
    if l.groups ~= '' then
      local a, b, c = group(l, k)
      set_group(l, k, k, a + n, b + units, c + bare)
    end
    l.n, l.units, l.bare = l.n + n, l.units + units, l.bare + bare
  end

  -- Returns the group of the n-th use, and the number of uses before that group.
  local function group_of(l, n)
    local k, before = 1, 0
    for _ = 2, group_count(l) do
      local size = read_count(l.groups, (k - 1) * l.wide + 2)
      if n <= before + size then
        break
      end
      k, before = k + 1, before + size
    end
    return k, before
  end

  -- Joins small groups, so that their number is bounded.
  local function join_group(l, k)
    if k < 1 or k >= group_count(l) then
      return
    end
    local n, units, bare = group(l, k)
    local more, more_units, more_bare = group(l, k + 1)
    if n + more <= LONG / 2 then
      set_group(l, k, k + 1, n + more, units + more_units, bare + more_bare)
    end
  end

  -- Splits a group into which a lagging clock has put too many uses.
  local function split_group(l, k, before)
    local n, units, bare = group(l, k)
    if n <= 2 * LONG then
      return
    end
    local half, half_bare = 0, 0
    local page =
      call('LRANGE', l.key, format('%d', before + 1), format('%d', before + LONG))
    for _, text in ipairs(page) do
      local _, u, name = use_of(text)
      half, half_bare = half + u, half_bare + (name == '' and u or 0)
    end
    if l.groups == '' then
      l.groups = group_text(l, n, units, bare)
    end
    l.groups = sub(l.groups, 1, (k - 1) * l.wide) .. group_text(l, LONG, half, half_bare) ..
      group_text(l, n - LONG, units - half, bare - half_bare) .. sub(l.groups, k * l.wide + 1)
  end

  -- A position in a list: the number of uses before it, their units and those without a name; its
  -- group, and the same numbers before the group.

  local function start()
    return {n = 0, units = 0, bare = 0, group = 1, from = 0, from_units = 0, from_bare = 0}
  end

  -- Moves a position to the first use for which is_past(units up to it, its end) holds; for the last
  -- use of a group, its number stands in place of the end.
  local function walk(l, p, is_past)
    local n, units, bare, k = p.n, p.units, p.bare, p.group
    local from, from_units, from_bare = p.from, p.from_units, p.from_bare
    local count = group_count(l)
    while k < count do
      local a, b, c = group(l, k)
      if is_past(from_units + b, nil, from + a) then
        break
      end
      from, from_units, from_bare, k = from + a, from_units + b, from_bare + c, k + 1
      n, units, bare = from, from_units, from_bare
    end
    while n < l.n do
      local ends, u, name = use_of(element(l, n + 1))
      if is_past(units + u, ends) then
        break
      end
      n, units, bare = n + 1, units + u, bare + (name == '' and u or 0)
    end
    return {n = n, units = units, bare = bare, group = k, from = from, from_units = from_units,
      from_bare = from_bare}
  end

  -- Finds the first use that counts at a time.
  local function spent(l, us, ns)
    local p = start()
    if l.n == 0 then
      return p
    end
    local first_us, first_ns = time_of(l.page[2] or '')
    if is_later(first_us, first_ns, us, ns) then
      return p
    end
    return walk(l, p, function(_, ends, n)
      local ends_us, ends_ns = time_of(ends or call('LINDEX', l.key, format('%d', n)) or '')
      return is_later(ends_us, ends_ns, us, ns)
    end)
  end

  -- Finds the first use from p on for which is_before does not hold.
  local function seek(l, p, is_before)
    local low, high = p.n + 1, l.n + 1
    while low < high do
      local middle = floor((low + high) / 2)
      if is_before(call('LINDEX', l.key, format('%d', middle)) or '') then
        low = middle + 1
      else
        high = middle
      end
    end
    return low
  end

  -- Writing removes expired uses.

  local function drop(l, p)
    if p.n == 0 then
      return
    end
    l.trim = p.n
    if p.n == l.n then
      l.n, l.units, l.bare, l.groups = 0, 0, 0, ''
      return
    end
    if l.groups ~= '' then
      l.groups = sub(l.groups, (p.group - 1) * l.wide + 1)
      l.n, l.units, l.bare = l.n - p.from, l.units - p.from_units, l.bare - p.from_bare
      change(l, 1, p.from - p.n, p.from_units - p.units, p.from_bare - p.bare)
    else
      l.n, l.units, l.bare = l.n - p.n, l.units - p.units, l.bare - p.bare
    end
  end

  -- Counts n new uses of `units` each at the end.
  local function append(l, n, units, bare)
    while n > 0 do
      local k, size = group_count(l), group(l, group_count(l))
      if size >= LONG then
        l.groups = (l.groups ~= '' and l.groups or group_text(l, l.n, l.units, l.bare)) ..
          group_text(l, 1, units, bare)
        l.n, l.units, l.bare, n = l.n + 1, l.units + units, l.bare + bare, n - 1
      else
        local more = n < LONG - size and n or LONG - size
        change(l, k, more, more * units, more * bare)
        n = n - more
      end
    end
  end

  -- Writes a list that has grown. `fresh` has the key, an entry for the first element, and the new
  -- elements; `before_us` is the end of the former last use. The lifetime is renewed when the end
  -- reaches into another block of time.
  local function save(l, fresh, ends_us, before_us, block)
    if l.is_new then
      if l.is_other then
        call('DEL', l.key)
      end
      fresh[1], fresh[2] = l.key, write_first(l)
      call('RPUSH', unpack(fresh))
    else
      fresh[2] = l.key
      call('RPUSH', unpack(fresh, 2))
      if l.trim > 0 then
        call('LTRIM', l.key, format('%d', l.trim), '-1')
      end
      call('LSET', l.key, '0', write_first(l))
    end
    if l.is_new or floor(ends_us / block) ~= floor(before_us / block) then
      expire(l.key, ends_us, block)
    end
  end

  -- Reduces the units of a use. A use without units is removed by save_less.
  local function cut_use(l, n, ends, units, name, back)
    if back < units then
      call('LSET', l.key, format('%d', n), use_text(ends, units - back, name))
    else
      l.out = l.out or {}
      l.out[#l.out + 1] = n
    end
  end

  -- The same, and reduces its group, which is returned.
  local function take_out(l, n, ends, units, name, back)
    local k = group_of(l, n)
    cut_use(l, n, ends, units, name, back)
    change(l, k, back < units and 0 or -1, -back, name == '' and -back or 0)
    return k
  end

  -- Rewrites all uses after the n-th, without the removed ones: Redis would search for each of them.
  local function rewrite(l, n, size)
    local goes, kept = {}, {}
    local page = call('LRANGE', l.key, format('%d', n), format('%d', size))
    for _, out in ipairs(l.out) do
      goes[out] = true
    end
    call('LTRIM', l.key, '0', format('%d', n - 1))
    for at = n, size do
      if not goes[at] then
        kept[#kept + 1] = page[at - n + 1]
      end
      if #kept == 1000 or (at == size and #kept > 0) then
        call('RPUSH', l.key, unpack(kept))
        kept = {}
      end
    end
  end

  local function remove_out(l)
    local out, size = l.out, l.n + #l.out
    table.sort(out)
    if out[1] == l.n + 1 then
      call('LTRIM', l.key, '0', format('%d', l.n))
    elseif #out > FEW then
      rewrite(l, out[1], size)
    else
      for _, n in ipairs(out) do
        call('LSET', l.key, format('%d', n), '')
      end
      call('LREM', l.key, format('%d', out[1] < size / 2 and #out or -#out), '')
    end
  end

  -- Writes a list that has shrunk in these groups.
  local function save_less(l, first, last)
    for k = last or 0, (first or 1) - 1, -1 do
      join_group(l, k)
    end
    if l.out then
      remove_out(l)
      if l.named then -- the last one may have gone
        local _
        l.ends, _, l.name = use_of(call('LINDEX', l.key, '-1'))
      end
    end
    call('LSET', l.key, '0', write_first(l))
  end

  -- The value that C reads.

  local function fit(used, wanted, cost, limit)
    if used + wanted * cost <= limit then
      return wanted
    end
    return used < limit and floor((limit - used) / cost) or 0
  end

  -- Describes a list as it was: `units` in use, of which `room` end by `room_ends`, and a newer end.
  local function describe(l, units, room_ends, room)
    local ends, name = l.newest, l.newest_name
    if l.is_new then
      return false
    end
    if ends == '' then
      ends, name = l.ends, l.name
    end
    if l.named and name == '' then
      name = '0'
    end
    if units == 0 then
      return ends ~= '' and not l.named and l.head .. use_text(ends, 0, name)
    end
    if room_ends and room_ends ~= l.ends then
      return l.head .. use_text(room_ends, room, l.named and '0' or '') .. ' ' ..
        use_text(l.ends, units - room, l.newest == '' and name or l.name) ..
        (l.newest ~= '' and ' ' .. use_text(ends, 0, name) or '')
    end
    return l.head .. use_text(l.ends, units, l.newest == '' and name or l.name) ..
      (l.newest ~= '' and ' ' .. use_text(ends, 0, name) or '')
  end

  return {open = open, element = element, describe = describe, fit = fit, spent = spent, start = start,
    walk = walk, seek = seek, drop = drop, append = append, save = save, save_less = save_less,
    cut_use = cut_use, take_out = take_out, change = change, group = group, group_of = group_of,
    group_count = group_count, group_text = group_text,
    split_group = split_group, use_of = use_of, use_text = use_text,
    write_first = write_first, SKEW = SKEW}
end
