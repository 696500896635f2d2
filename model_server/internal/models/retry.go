package models

import "time"

const (
	firstPause = 5 * time.Second
	mostPause  = 5 * time.Minute
)

// failure is a version that could not be loaded: it is tried again when another SavedModel is in its place, and else
// after pauses that double.
type failure struct {
	identity identity
	count    int
	until    time.Time
}

func (f *failure) due(now time.Time, found identity) bool {
	return f == nil || f.identity != found || !now.Before(f.until)
}

// again is the failure after one more.
func (f *failure) again(now time.Time, found identity) *failure {
	next := &failure{identity: found, count: 1}
	if f != nil && f.identity == found {
		next.count = f.count + 1
	}
	next.until = now.Add(pause(next.count))
	return next
}

func pause(count int) time.Duration {
	if count > 7 {
		return mostPause
	}
	return min(mostPause, firstPause<<(count-1))
}
