-- Reads and writes times: 16 digits of microseconds, or 19 of nanoseconds.

local function is_later(us, ns, than_us, than_ns)
  return us > than_us or (us == than_us and ns > than_ns)
end

local function time_of(text)
  return tonumber(sub(text, 1, 16)) or 0, tonumber(sub(text, 17)) or 0
end

local function time_text(us, ns)
  return format(ns == 0 and '%d' or '%d%03d', us, ns)
end
