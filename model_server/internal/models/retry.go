package models

import "time"

const (
	firstPause = 5 * time.Second
	mostPause  = 5 * time.Minute
)

// attempt is what was there when a load began.
type attempt struct {
	identity identity
	contents contents
}

// failure is a version that could not be loaded: it is tried again when another saved_model.pb is in its place, when its
// files have changed and are the same at two looks (a copy that is complete by now), and else after pauses that double.
type failure struct {
	attempt
	// seen are the files at the last look.
	seen  contents
	count int
	until time.Time
}

// due says whether to try again, as the version is found now.
func (f *failure) due(now time.Time, found attempt) bool {
	if f == nil || !f.identity.sameFile(found.identity) || !now.Before(f.until) {
		return true
	}
	settled := f.seen == found.contents
	f.seen = found.contents
	return settled && f.contents != found.contents
}

// again is the failure after one more.
func (f *failure) again(now time.Time, found attempt) *failure {
	next := &failure{attempt: found, seen: found.contents, count: 1}
	if f != nil && f.attempt == found {
		next.count = f.count + 1
	}
	next.until = now.Add(Pause(next.count))
	return next
}

// Pause is how long is waited after so many failures in a row.
func Pause(count int) time.Duration {
	if count > 7 {
		return mostPause
	}
	return min(mostPause, firstPause<<(count-1))
}
