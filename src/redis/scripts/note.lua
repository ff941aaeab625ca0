-- Of a step of which not all requests were granted: how many were.
local function note(i, granted)
  values[noted + 1], values[noted + 2] = i, granted
  noted = noted + 2
end
