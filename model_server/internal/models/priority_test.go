package models

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// nice of the thread that calls, as the system call tells it: 20 less it.
func nice(t *testing.T) int {
	t.Helper()
	raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, syscall.Gettid())
	if err != nil {
		t.Error(err)
	}
	return 20 - raw
}

// slice of the thread that calls; 0 where the kernel has none of its own for each.
func slice(t *testing.T) time.Duration {
	t.Helper()
	attributes, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Error(err)
		return 0
	}
	return time.Duration(attributes.Runtime)
}

func TestLoadsComeBehindRequests(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	usual, usualSlice := nice(t), slice(t)
	for _, each := range []struct {
		behind bool
		want   [3]int
	}{{true, [3]int{usual, max(usual, niceOfLoads), max(usual, niceOfLoads)}}, {false, [3]int{usual, usual, usual}}} {
		p := priority{behind: each.behind}
		for i, want := range each.want {
			p.run(func() {
				if got := nice(t); got != want {
					t.Errorf("load %d of %v: nice %d, expected %d", i, each.behind, got, want)
				}
				if got := slice(t); usualSlice > 0 && want == niceOfLoads && got != sliceOfLoads {
					t.Errorf("load %d: a slice of %v, expected %v", i, got, sliceOfLoads)
				}
			})
		}
	}
	if got := nice(t); got != usual {
		t.Errorf("the caller has nice %d, had %d", got, usual)
	}
}

func TestVersionsAreTakenDownBehindRequests(t *testing.T) {
	f := newFakes(t, latest)
	f.write(1, "one")
	f.look()
	f.write(2, "two")
	f.look()
	f.registry.shared.draining.Wait()
	if f.closes.Load() != 1 || f.closedAt.Load() != max(int64(nice(t)), niceOfLoads) {
		t.Errorf("%d closed, at nice %d", f.closes.Load(), f.closedAt.Load())
	}
}
