package models

import (
	"runtime"
	"sync/atomic"
	"syscall"
)

// niceOfLoads is that of loads, and of what takes versions down, beside versions that answer: a request takes the
// processor from a load at once, and a load has a tenth of it where requests leave nothing idle.
const niceOfLoads = 10

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
		// Of this thread. Where it is forbidden, it is as others.
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), niceOfLoads)
		change()
	}()
	<-done
}
