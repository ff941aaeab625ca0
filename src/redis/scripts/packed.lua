-- Replies with doubles in one text if all requests were granted and each value is its number.
if not rest then
  return struct.pack(noted == 2 and '<dd' or '<' .. string.rep('d', noted), unpack(values))
end
