package main

import "github.com/rueian/rueidis"

// noneLike is an empty slice of a type that the library does not name.
func noneLike[T any](T) []T { return nil }

// The last release under this path, for it needs no newer Go than Debian has. It connects
// as those under github.com/redis/rueidis, and as valkey-go, which is made of it.
func rueidisLibrary(address string) library {
	client := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}}))
	doMulti := func(commands [][]string) []rueidis.RedisResult {
		multi := noneLike(client.B().Ping().Build())
		for _, command := range commands {
			multi = append(multi, client.B().Arbitrary(command...).Build())
		}
		return client.DoMulti(ctx, multi...)
	}
	values := func(replies []rueidis.RedisResult) []any {
		all := make([]any, len(replies))
		for i, reply := range replies {
			all[i] = must(reply.ToAny())
		}
		return all
	}
	return library{
		send: func(command ...string) (any, error) {
			return client.Do(ctx, client.B().Arbitrary(command...).Build()).ToAny()
		},
		custom: func(limit, key string) []any {
			cmd := client.B().Arbitrary("WEIR.ACQUIRE", limit).Keys(key).Build()
			return must(client.Do(ctx, cmd).ToAny()).([]any)
		},
		pipeline: func(commands [][]string) []any {
			return values(doMulti(commands))
		},
		transaction: func(commands [][]string) []any {
			all := [][]string{{"MULTI"}}
			all = append(append(all, commands...), []string{"EXEC"})
			replies := values(doMulti(all))
			return replies[len(replies)-1].([]any)
		},
		alone: func(use func(send sender)) {
			must(0, client.Dedicated(func(conn rueidis.DedicatedClient) error {
				use(func(command ...string) (any, error) {
					return conn.Do(ctx, client.B().Arbitrary(command...).Build()).ToAny()
				})
				return nil
			}))
		},
		close: client.Close,
	}
}
