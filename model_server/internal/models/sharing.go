package models

import (
	"encoding/json"
	"sync"
	"time"
)

const (
	// mostOften bounds how often a model is asked to describe itself, however often the state is read.
	mostOften = time.Second
	// mostAsking is how long the state waits for that: it reads a file, whose disk may not answer.
	mostAsking = 200 * time.Millisecond
)

// sharing is what of a version's tables other models of the process use as well: it changes as they come and go.
type sharing struct {
	mutex  sync.Mutex
	asked  time.Time
	asking bool
	bytes  *int64
}

// now is nil where it is not known.
func (s *sharing) now() *int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.bytes
}

// begin says whether the model is to be asked: not just now, and by one at a time.
func (s *sharing) begin(now time.Time) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if since := now.Sub(s.asked); s.asking || since >= 0 && since < mostOften {
		return false
	}
	s.asking, s.asked, s.bytes = true, now, nil
	return true
}

func (s *sharing) end(bytes *int64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.asking, s.bytes = false, bytes
}

// askShared brings what a version shares up to date, as long as it is open. Not under deciding.
func (v *version) askShared(now time.Time) {
	if !v.acquire() {
		return
	}
	if !v.sharing.begin(now) {
		v.release()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer v.release()
		var said info
		if text, err := v.model.Info(); err == nil {
			_ = json.Unmarshal(text, &said) // newVersion refuses one that is wrong
		}
		v.sharing.end(count(said.SharedTableBytes))
	}()
	select {
	case <-done:
	case <-time.After(mostAsking):
	}
}
