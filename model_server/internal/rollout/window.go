package rollout

import (
	"sync/atomic"
	"time"
)

const (
	slots    = 6
	slotTime = 10 * time.Second
)

// Window counts times of the last minute. Any number of goroutines may add; one at a time turns and reads it.
type Window struct {
	slots   [slots]Durations
	current atomic.Int32
	// since is when the current slot began, made when the window was.
	since, made time.Time
}

// NewWindow begins now.
func NewWindow(now time.Time) *Window { return &Window{since: now, made: now} }

// Add counts one.
func (w *Window) Add(took time.Duration) { w.slots[w.current.Load()].Add(took) }

// Turn forgets what is older than a minute. It is called at least every few seconds.
func (w *Window) Turn(now time.Time) {
	for turned := 0; now.Sub(w.since) >= slotTime; turned++ {
		if turned == slots {
			w.since = now // all is forgotten
			return
		}
		next := (w.current.Load() + 1) % slots
		for i := range w.slots[next] {
			w.slots[next][i].Store(0)
		}
		w.current.Store(next)
		w.since = w.since.Add(slotTime)
	}
}

// Read tells the times of the last minute, and how many a second there were.
func (w *Window) Read(now time.Time) (times *Times, rate float64) {
	w.Turn(now)
	times = &Times{}
	for i := range w.slots {
		times.add(&w.slots[i])
	}
	covered := min((slots-1)*slotTime+now.Sub(w.since), now.Sub(w.made))
	return times, float64(times.Total) / max(covered.Seconds(), 1)
}
