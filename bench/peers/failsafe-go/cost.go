package main

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

const rounds = 5

// Each takes a permit and reports a success, under the limits that library.c has.
var pairs = map[string]func() func() bool{
	"adaptive": func() func() bool {
		l := adaptivelimiter.NewBuilder[any]().WithLimits(1, 1000, 20).Build()
		return func() bool {
			permit, allowed := l.TryAcquirePermit()
			if allowed {
				permit.Record()
			}
			return allowed
		}
	},
	"breaker": func() func() bool {
		b := circuitbreaker.NewBuilder[any]().
			WithFailureRateThreshold(0.5, 20, 10*time.Second).WithDelay(5 * time.Second).Build()
		return func() bool {
			allowed := b.TryAcquirePermit()
			if allowed {
				b.RecordSuccess()
			}
			return allowed
		}
	},
	"concurrency": func() func() bool {
		b := bulkhead.New[any](100)
		return func() bool {
			allowed := b.TryAcquirePermit()
			if allowed {
				b.ReleasePermit()
			}
			return allowed
		}
	},
}

// Nanoseconds that this thread has run: the collector's threads do not count.
func threadNs() int64 {
	const threadCPU = 3
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

// cost prints what a permit and its report take, as library.c measures ours. False: no such limiter.
func cost(name string, operations int) bool {
	start := pairs[name]
	if start == nil {
		return false
	}
	runtime.LockOSThread()
	pair := start()
	ns := make([]float64, rounds)
	for round := range ns {
		begun := threadNs()
		for range operations {
			if !pair() {
				panic("denied")
			}
		}
		ns[round] = float64(threadNs()-begun) / float64(operations)
	}
	slices.Sort(ns)
	fmt.Printf("%s %.2f ns\n", name, ns[rounds/2])
	return true
}
