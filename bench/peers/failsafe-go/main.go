// Between the clients and the server, with a limiter of failsafe-go around each call: as
// bench/closed_loop/gate.c, whose frames are in wire.h.
//
//	failsafe-go SERVER_PORT LIMITER TIMEOUT_MS
//
// or the cost of a permit and its report (cost.go):
//
//	failsafe-go adaptive|breaker|concurrency [--quick]
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/priority"
)

const (
	answered = iota
	denied
	failed
)

// done is told whether the call succeeded.
type limiter interface {
	acquire(high bool) (done func(success bool), limit int, allowed bool)
}

type adaptive struct {
	adaptivelimiter.AdaptiveLimiter[any]
	waits bool
}

func released(permit adaptivelimiter.Permit) func(bool) {
	return func(success bool) {
		if success {
			permit.Record()
		} else {
			permit.Drop()
		}
	}
}

func (l adaptive) acquire(bool) (func(bool), int, bool) {
	var permit adaptivelimiter.Permit
	var err error
	var allowed bool
	if l.waits {
		permit, err = l.AcquirePermit(context.Background())
		allowed = err == nil
	} else {
		permit, allowed = l.TryAcquirePermit()
	}
	if !allowed {
		return nil, l.Limit(), false
	}
	return released(permit), l.Limit(), true
}

type prioritized struct {
	adaptivelimiter.PriorityLimiter[any]
}

func (l prioritized) acquire(high bool) (func(bool), int, bool) {
	class := priority.VeryLow
	if high {
		class = priority.VeryHigh
	}
	permit, err := l.AcquirePermitWithPriority(context.Background(), class)
	if err != nil {
		return nil, l.Limit(), false
	}
	return released(permit), l.Limit(), true
}

type breaker struct {
	circuitbreaker.CircuitBreaker[any]
}

func (b breaker) acquire(bool) (func(bool), int, bool) {
	if !b.TryAcquirePermit() {
		return nil, 0, false
	}
	return func(success bool) {
		if success {
			b.RecordSuccess()
		} else {
			b.RecordFailure()
		}
	}, 0, true
}

func newLimiter(name string) limiter {
	most := adaptivelimiter.NewBuilder[any]().WithLimits(1, 1000, 20)
	switch name {
	case "limiter":
		return adaptive{most.Build(), false}
	case "queue":
		return adaptive{most.WithQueueing(2, 3).Build(), true}
	case "priority":
		prioritizer := adaptivelimiter.NewPrioritizer()
		prioritizer.ScheduleCalibrations(context.Background(), 500*time.Millisecond)
		return prioritized{most.BuildPrioritized(prioritizer)}
	case "breaker":
		return breaker{circuitbreaker.NewBuilder[any]().
			WithFailureRateThreshold(0.5, 20, 2*time.Second).WithDelay(time.Second).Build()}
	}
	fmt.Fprintln(os.Stderr, "no such limiter:", name)
	os.Exit(2)
	return nil
}

type gate struct {
	limiter limiter
	server  string
	timeout time.Duration
}

// call says whether it succeeded. After an error the connection begins anew; if it was kept from an
// earlier call and the server had closed it, with the same call.
func (g *gate) call(server *net.Conn, frame []byte) bool {
	for {
		kept := *server != nil
		if !kept {
			made, err := net.Dial("tcp", g.server)
			if err != nil {
				return false
			}
			*server = made
		}
		if g.timeout > 0 {
			(*server).SetReadDeadline(time.Now().Add(g.timeout))
		}
		_, err := (*server).Write(frame)
		if err == nil {
			_, err = io.ReadFull(*server, frame)
		}
		if err == nil {
			return true
		}
		(*server).Close()
		*server = nil
		if !kept || errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
	}
}

func (g *gate) serve(client net.Conn) {
	defer client.Close()
	var server net.Conn
	frame := make([]byte, 16)
	for {
		if _, err := io.ReadFull(client, frame); err != nil {
			return
		}
		status := byte(denied)
		done, limit, allowed := g.limiter.acquire(frame[15] == 0)
		if allowed {
			success := g.call(&server, frame)
			done(success)
			status = answered
			if !success {
				status = failed
			}
		}
		binary.LittleEndian.PutUint32(frame[8:], uint32(limit))
		frame[14] = status
		if _, err := client.Write(frame); err != nil {
			return
		}
	}
}

func main() {
	operations := 1_000_000
	if len(os.Args) > 2 && os.Args[2] == "--quick" {
		operations = 100_000
	}
	if len(os.Args) > 1 && cost(os.Args[1], operations) {
		return
	}
	ms, _ := strconv.Atoi(os.Args[3])
	g := &gate{newLimiter(os.Args[2]), "127.0.0.1:" + os.Args[1], time.Duration(ms) * time.Millisecond}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stderr, "listening: frames %s\n", listener.Addr())
	for {
		client, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go g.serve(client)
	}
}
