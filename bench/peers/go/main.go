// What a check of one of a million keys costs x/time/rate and uber-go/ratelimit, each in a
// sharded map, and its memory.
//
// `go NAME` prints `NAME value unit` lines, measured as library.c measures ours.
package main

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/bits"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"go.uber.org/ratelimit"
	"golang.org/x/time/rate"
)

const (
	keys   = 1_000_000
	rounds = 5
	shards = 256
	limit  = 1000 // an hour, and at once
)

// A limiter for each key, made when the key is first seen.
type sharded[L any] struct {
	seed   maphash.Seed
	create func() L
	shards [shards]struct {
		sync.RWMutex
		limiters map[string]L
	}
}

func newSharded[L any](create func() L) *sharded[L] {
	s := &sharded[L]{seed: maphash.MakeSeed(), create: create}
	for i := range s.shards {
		s.shards[i].limiters = map[string]L{}
	}
	return s
}

func (s *sharded[L]) get(key []byte) L {
	shard := &s.shards[maphash.Bytes(s.seed, key)%shards]
	shard.RLock()
	limiter, found := shard.limiters[string(key)]
	shard.RUnlock()
	if found {
		return limiter
	}
	shard.Lock()
	defer shard.Unlock()
	if limiter, found = shard.limiters[string(key)]; !found {
		limiter = s.create()
		shard.limiters[string(key)] = limiter
	}
	return limiter
}

// 20 bytes of text, the eight in the middle a number in the letters '@' to 'O'.
func writeKey(key []byte, number uint64) {
	x := number
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	binary.LittleEndian.PutUint64(key[8:], x|0x4040404040404040)
}

// xorshift64*, as in measure.h.
func drawBelow(seed *uint64, bound uint64) uint64 {
	*seed ^= *seed >> 12
	*seed ^= *seed << 25
	*seed ^= *seed >> 27
	high, _ := bits.Mul64(*seed*0x2545f4914f6cdd1d, bound)
	return high
}

// Nanoseconds that this thread has run: the collector's threads do not count.
func nowNs() int64 {
	const threadCPU = 3
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

// Without what the collector would free.
func residentBytes() float64 {
	var size, resident int
	debug.FreeOSMemory()
	statm, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(statm), &size, &resident)
	}
	if err != nil {
		panic(err)
	}
	return float64(resident * os.Getpagesize())
}

func measure(name string, operations int, allowed func(key []byte) bool) {
	key := []byte("account:12345678:id\x00")
	seed := uint64(0x9e3779b97f4a7c15)
	denied := 0
	before := residentBytes()
	for i := range uint64(keys) {
		writeKey(key, i)
		allowed(key)
	}
	bytes := (residentBytes() - before) / keys
	ns := make([]float64, rounds)
	for round := range ns {
		start := nowNs()
		for range operations {
			writeKey(key, drawBelow(&seed, keys))
			if !allowed(key) {
				denied++
			}
		}
		ns[round] = float64(nowNs()-start) / float64(operations)
	}
	if denied != 0 {
		panic("denied")
	}
	slices.Sort(ns)
	fmt.Printf("%s %.2f ns\n%s %.2f bytes\n", name, ns[rounds/2], name, bytes)
}

func main() {
	runtime.LockOSThread()
	operations := keys
	if len(os.Args) > 2 && os.Args[2] == "--quick" {
		operations = 100_000
	}
	switch name := append(os.Args, "")[1]; name {
	case "x/time/rate":
		limiters := newSharded(func() *rate.Limiter {
			return rate.NewLimiter(rate.Every(time.Hour/limit), limit)
		})
		measure(name, operations, func(key []byte) bool { return limiters.get(key).Allow() })
	case "uber-go/ratelimit":
		// It denies nobody but holds whoever comes early: here nobody does.
		limiters := newSharded(func() ratelimit.Limiter { return ratelimit.New(1_000_000) })
		measure(name, operations, func(key []byte) bool {
			limiters.get(key).Take()
			return true
		})
	default:
		fmt.Fprintf(os.Stderr, "expected the name of a peer, found '%s'\n", name)
		os.Exit(2)
	}
}
