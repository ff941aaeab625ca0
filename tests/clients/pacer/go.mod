module weir/tests/clients/pacer

go 1.26.0

require go.uber.org/ratelimit v0.3.1

require github.com/benbjohnson/clock v1.3.0 // indirect
