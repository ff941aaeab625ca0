// pacer RATE SLACK MS...: how many milliseconds each Take of go.uber.org/ratelimit waits, if the calls come
// at the given milliseconds. The time is virtual. With a negative SLACK the library's default holds.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"go.uber.org/ratelimit"
)

type clock struct {
	now  time.Time
	wait time.Duration
}

func (c *clock) Now() time.Time        { return c.now }
func (c *clock) Sleep(d time.Duration) { c.wait = d }

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	begin := time.Unix(1767225600, 0)
	c := &clock{}
	options := []ratelimit.Option{ratelimit.WithClock(c)}
	if slack := number(os.Args[2]); slack >= 0 {
		options = append(options, ratelimit.WithSlack(slack))
	}
	limiter := ratelimit.New(number(os.Args[1]), options...)
	for _, at := range os.Args[3:] {
		*c = clock{now: begin.Add(time.Duration(number(at)) * time.Millisecond)}
		limiter.Take()
		fmt.Println(c.wait.Milliseconds())
	}
}
