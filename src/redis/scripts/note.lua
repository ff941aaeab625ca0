-- Records how many requests of a command were granted, if not all were.
local function note(i, granted)
  values[noted + 1], values[noted + 2] = i, granted
  noted = noted + 2
end
