// What the Go clients do, by what they have in common. See ../README.md.
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"sync"
	"sync/atomic"
)

const (
	connections = 5
	each        = 30
)

// A sender sends the words of a command and gives its reply.
type sender func(words ...string) (any, error)

// A library is a client with its default settings.
type library struct {
	send        sender
	custom      func(limit, key string) []any // a command that it was taught
	pipeline    func(commands [][]string) []any
	transaction func(commands [][]string) []any
	alone       func(use func(send sender)) // on a connection of its own
	close       func()
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func repeat(n int, words ...string) [][]string {
	commands := make([][]string, n)
	for i := range commands {
		commands[i] = words
	}
	return commands
}

func remaining(replies []any) []any {
	var left []any
	for _, reply := range replies {
		left = append(left, reply.([]any)[2])
	}
	return left
}

// crowd holds its connections at the same time: each goroutine has one of its own.
func crowd(client library, key string) int64 {
	var group sync.WaitGroup
	var passed int64
	for i := 0; i < connections; i++ {
		group.Add(1)
		go client.alone(func(send sender) {
			defer group.Done()
			for j := 0; j < each; j++ {
				reply := must(send("CL.THROTTLE", key, "99", "1", "3600")).([]any)
				if reply[0] == int64(0) {
					atomic.AddInt64(&passed, 1)
				}
			}
		})
	}
	group.Wait()
	return passed
}

func main() {
	library, port, key := os.Args[1], os.Args[2], os.Args[3]
	client := libraries[library]("127.0.0.1:" + port)
	defer client.close()
	do := func(words ...string) any { return must(client.send(words...)) }
	out := json.NewEncoder(os.Stdout)

	seen := map[string]any{
		"ping": do("PING"),
		"cell": do("CL.THROTTLE", key+":cell", "9", "5", "3600"),
		"crab": do("THROTTLE", key+":crab", "9", "5", "3600"),
		// The order of the fields is the order of the calls.
		"acquire":     do("WEIR.ACQUIRE", "login", key),
		"custom":      client.custom("login", key),
		"check":       do("WEIR.CHECK", "path", "/login", "ip", key+":ip"),
		"error":       errorOf(client.send("WEIR.ACQUIRE", "nosuch", key)),
		"alive":       do("PING"),
		"pipeline":    remaining(client.pipeline(repeat(1000, "CL.THROTTLE", key+":pipeline", "999", "1", "3600"))),
		"transaction": remaining(client.transaction(repeat(3, "CL.THROTTLE", key+":multi", "9", "1", "3600"))),
		"cleared":     []any{do("DEL", key+":multi"), do("EXISTS", key+":multi")},
		"passed":      crowd(client, key+":crowd"),
	}
	must(0, out.Encode(seen))
	must(bufio.NewReader(os.Stdin).ReadString('\n'))
	must(0, out.Encode(map[string]any{"again": again(client, key)}))
}

// again asks until the library has seen that the server was started anew.
func again(client library, key string) any {
	for {
		if reply, err := client.send("WEIR.ACQUIRE", "login", key); err == nil {
			return reply
		}
	}
}

func errorOf(reply any, err error) string {
	return err.Error()
}

var libraries = map[string]func(address string) library{"go-redis": goRedis, "rueidis": rueidisLibrary}
