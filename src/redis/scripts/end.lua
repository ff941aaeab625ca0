local i = 1
a = a + 1
while i <= key_count do
  local n = tonumber(args[a + 1])
  if args[a] == 'group' then
    -- A group is tried first, and done if all of its commands pass.
    local first, all, fits = a + 2, true, nil
    a = first
    for j = i, i + n - 1 do
      a, fits = kinds[args[a]](a + 2, j, j, true)
      all = all and fits
    end
    if all then
      a = first
      for j = i, i + n - 1 do
        if not ahead then
          values[j] = nil
        end
        a = kinds[args[a]](a + 2, j, j, false)
      end
    end
  else
    a = kinds[args[a]](a + 2, i, i + n - 1, false)
  end
  i = i + n
end
return values
