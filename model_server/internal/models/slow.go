package models

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// patience is how long is waited for what may hang: a disk, or a model that does something else than it should.
type patience struct {
	// remind is when it is logged first that something takes long.
	remind time.Duration
	// hold is how long a load keeps others waiting.
	hold time.Duration
}

var usualPatience = patience{remind: 30 * time.Second, hold: 60 * time.Second}

// remind logs that something is still going on, at intervals that double, until stop is called.
func (m *model) remind(doing string, arguments ...any) (stop func()) {
	done := make(chan struct{})
	began := time.Now()
	go func() {
		for after := m.shared.patience.remind; ; after *= 2 {
			select {
			case <-done:
				return
			case <-time.After(time.Until(began.Add(after))):
				m.log.Warn(fmt.Sprintf("still %s after %v", doing, after), arguments...)
			}
		}
	}()
	return func() { close(done) }
}

// takeTurn waits until no other load is under way; false: the context has ended. A load that takes too long gives the
// turn up and goes on, so that one that hangs does not keep new versions from all models.
func (m *model) takeTurn(ctx context.Context) (leave func(), ok bool) {
	select {
	case m.shared.loading <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	giveUp := sync.OnceFunc(func() { <-m.shared.loading })
	late := time.AfterFunc(m.shared.patience.hold, func() {
		m.log.Warn(fmt.Sprintf("a load takes over %v; other models are loaded beside it", m.shared.patience.hold))
		giveUp()
	})
	return func() {
		late.Stop()
		giveUp()
	}, true
}
