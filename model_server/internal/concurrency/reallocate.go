package concurrency

import (
	"context"
	"time"
)

// between two allocations: long enough to know what a model is asked, short enough to follow the hours of a day.
const between = 10 * time.Second

// Run allocates anew, by what was measured, until the context ends.
func (p *Pool) Run(ctx context.Context) {
	ticker := time.NewTicker(between)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.reallocate()
		}
	}
}

func (p *Pool) reallocate() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := p.now()
	for _, line := range p.lines {
		line.measure(now.Sub(p.since).Seconds())
	}
	p.since = now
	p.book.allocate(func(of *lane) Load { return p.lines[of.model].load })
}

// measure takes up what came since the last time, with half the weight, so that one burst does not turn everything
// over. The requests that were refused count: they are what more slots would be for.
func (l *line) measure(seconds float64) {
	if seconds <= 0 {
		return
	}
	l.load.Rate = (l.load.Rate + float64(l.arrived)/seconds) / 2
	if l.ended > 0 {
		held := l.held.Seconds() / float64(l.ended)
		if l.load.Held > 0 {
			held = (l.load.Held + held) / 2
		}
		l.load.Held = held
	}
	l.arrived, l.ended, l.held = 0, 0, 0
}

// Use is what a model has of the slots.
type Use struct {
	// Share is how many slots it has while all models have requests.
	Share, Running, Waiting int
	Reserved                bool
	// Load is what was measured until the last allocation.
	Load Load
}

// Use of each model.
func (p *Pool) Use() map[string]Use {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	uses := map[string]Use{}
	for model, line := range p.lines {
		uses[model] = Use{line.share, line.running, line.waiting, line.reserved, line.load}
	}
	return uses
}
