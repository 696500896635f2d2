// Package throttle keeps a log from growing as fast as others make things go wrong.
package throttle

import (
	"sync"
	"time"
)

// Every is how often a line of one kind is written.
const Every = time.Minute

// Line is one that is written the first time, and then at most once every Every. The zero value is ready.
type Line struct {
	mutex   sync.Mutex
	written time.Time
	untold  int64
}

// Add counts occurrences at a time. Where they are to be told, all of them are that no line has told of.
func (l *Line) Add(occurrences int64, now time.Time) (untold int64, told bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.untold += occurrences
	if !l.written.IsZero() && now.Sub(l.written) < Every {
		return 0, false
	}
	untold, l.untold, l.written = l.untold, 0, now
	return untold, true
}
