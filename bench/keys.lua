-- For wrk: a random key of a million in each request.
math.randomseed(os.time())

function request()
	return wrk.format("GET", "/v1/acquire/bench?key=" .. math.random(1000000))
end
