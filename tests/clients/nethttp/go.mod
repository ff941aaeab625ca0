module weir/tests/clients/nethttp

go 1.18
