package main

import (
	"context"
	"crypto/tls"
	"os"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func words(command []string) []any {
	all := make([]any, len(command))
	for i, word := range command {
		all[i] = word
	}
	return all
}

func secure() *tls.Config {
	if os.Getenv("WEIR_TLS") == "" {
		return nil
	}
	return &tls.Config{}
}

func goRedis(address string) library {
	client := redis.NewClient(&redis.Options{Addr: address, TLSConfig: secure(),
		Username: os.Getenv("WEIR_USER"), Password: os.Getenv("WEIR_SECRET")})
	batch := func(run func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error)) func([][]string) []any {
		return func(commands [][]string) []any {
			var replies []any
			for _, reply := range must(run(ctx, func(pipe redis.Pipeliner) error {
				for _, command := range commands {
					pipe.Do(ctx, words(command)...)
				}
				return nil
			})) {
				replies = append(replies, must(reply.(*redis.Cmd).Slice()))
			}
			return replies
		}
	}
	return library{
		send: func(command ...string) (any, error) { return client.Do(ctx, words(command)...).Result() },
		custom: func(limit, key string) []any {
			cmd := redis.NewSliceCmd(ctx, "WEIR.ACQUIRE", limit, key)
			must(0, client.Process(ctx, cmd))
			return cmd.Val()
		},
		pipeline:    batch(client.Pipelined),
		transaction: batch(client.TxPipelined),
		alone: func(use func(send sender)) {
			conn := client.Conn()
			defer conn.Close()
			use(func(command ...string) (any, error) { return conn.Do(ctx, words(command)...).Result() })
		},
		close: func() { client.Close() },
	}
}
