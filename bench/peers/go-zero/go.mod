module weir/bench/peers/go-zero

go 1.26.0

require github.com/zeromicro/go-zero v1.10.3
