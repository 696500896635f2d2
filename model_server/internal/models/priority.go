package models

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// niceOfLoads is that of loads, and of what takes versions down, beside versions that answer: a load has a tenth of
	// the processor where requests leave nothing idle.
	niceOfLoads = 10
	// sliceOfLoads is the longest there is: since Linux 6.12 a thread that wakes takes the processor at once from one
	// whose slice is longer. Else a request waits up to 3 ms. Older kernels pass over it.
	sliceOfLoads = 100 * time.Millisecond
)

// priority of loads, and of what takes versions down.
type priority struct {
	// behind: requests come first.
	behind bool
	begun  atomic.Bool
}

// run runs a load, or takes a version down. The first load of the process starts the threads that TensorFlow has once,
// which requests use.
func (p *priority) run(change func()) {
	if !p.begun.Swap(true) || !p.behind {
		change()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked: a thread cannot come forward again, so it ends with this function. Those that a load starts
		// stay behind: they copy tables, or wait for work that the threads of requests do by themselves.
		runtime.LockOSThread()
		comeBehind()
		change()
	}()
	<-done
}

// comeBehind puts this thread behind others. Where that is forbidden, it is as they are.
func comeBehind() {
	nice := int32(niceOfLoads)
	if own, err := unix.SchedGetAttr(0, 0); err == nil {
		nice = max(nice, own.Nice) // the whole server may be behind others
	}
	wanted := unix.SchedAttr{Size: unix.SizeofSchedAttr, Nice: nice, Runtime: uint64(sliceOfLoads)}
	if unix.SchedSetAttr(0, &wanted, 0) != nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), int(nice))
	}
}
