// go-redis with its default settings. See ../README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

const (
	connections = 5
	each        = 30
)

var ctx = context.Background()

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// acquire is a command that the library was taught.
func acquire(client *redis.Client, key string) []any {
	cmd := redis.NewSliceCmd(ctx, "WEIR.ACQUIRE", "login", key)
	must(0, client.Process(ctx, cmd))
	return cmd.Val()
}

func pipeline(client *redis.Client, key string) []any {
	var remaining []any
	replies := must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := 0; i < 1000; i++ {
			pipe.Do(ctx, "CL.THROTTLE", key, 999, 1, 3600)
		}
		return nil
	}))
	for _, reply := range replies {
		remaining = append(remaining, must(reply.(*redis.Cmd).Slice())[2])
	}
	return remaining
}

// crowd holds its connections at the same time: each goroutine has one of its own.
func crowd(client *redis.Client, key string) int64 {
	var group sync.WaitGroup
	var passed int64
	for i := 0; i < connections; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			conn := client.Conn()
			defer conn.Close()
			for j := 0; j < each; j++ {
				reply := must(conn.Do(ctx, "CL.THROTTLE", key, 99, 1, 3600).Slice())
				if reply[0] == int64(0) {
					atomic.AddInt64(&passed, 1)
				}
			}
		}()
	}
	group.Wait()
	return passed
}

func main() {
	port, key := os.Args[1], os.Args[2]
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	defer client.Close()
	do := func(words ...any) any { return must(client.Do(ctx, words...).Result()) }
	out := json.NewEncoder(os.Stdout)

	seen := map[string]any{
		"ping": must(client.Ping(ctx).Result()),
		"cell": do("CL.THROTTLE", key+":cell", 9, 5, 3600),
		"crab": do("THROTTLE", key+":crab", 9, 5, 3600),
		// The order of the fields is the order of the calls.
		"acquire":  do("WEIR.ACQUIRE", "login", key),
		"custom":   acquire(client, key),
		"check":    do("WEIR.CHECK", "path", "/login", "ip", key+":ip"),
		"error":    client.Do(ctx, "WEIR.ACQUIRE", "nosuch", key).Err().Error(),
		"alive":    must(client.Ping(ctx).Result()),
		"pipeline": pipeline(client, key+":pipeline"),
		"passed":   crowd(client, key+":crowd"),
	}
	must(0, out.Encode(seen))
	must(bufio.NewReader(os.Stdin).ReadString('\n'))
	must(0, out.Encode(map[string]any{"again": do("WEIR.ACQUIRE", "login", key)}))
}
