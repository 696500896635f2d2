// Package concurrency bounds how many requests are computed at once, and shares that out among the models: some have
// slots of their own, the others what is left, by what their requests cost.
package concurrency

import (
	"container/list"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Limits are of all models together, but for Queued.
type Limits struct {
	// Concurrent is how many requests are computed at once: the slots.
	Concurrent int
	// Queued is how many requests of one model wait for a slot. One more is refused at once: an answer that comes too
	// late costs as much as one in time.
	Queued int
	// Reserved slots are a model's alone, and all that it has. The others need one at least.
	Reserved map[string]int
}

// Pool is the slots of a server. Any number of goroutines may use it at once.
type Pool struct {
	limits Limits
	now    func() time.Time

	mutex sync.Mutex
	book  book
	lines map[string]*line
	since time.Time
}

// line is a lane with those that wait in it, the first one first, and what was measured since the last allocation.
type line struct {
	lane
	queue          *list.List
	arrived, ended int
	held           time.Duration
	load           Load
}

// waiter is a request that waits. Its slot is taken before ready is closed.
type waiter struct{ ready chan struct{} }

// New makes a pool for models. Their shares are equal until there is something measured.
func New(models []string, limits Limits) *Pool {
	p := &Pool{limits: limits, now: time.Now, lines: map[string]*line{}}
	p.book.free = limits.Concurrent
	for _, model := range models {
		reserved, ok := limits.Reserved[model]
		l := &line{lane: lane{model: model, share: reserved, reserved: ok}, queue: list.New()}
		p.book.free -= reserved
		p.lines[model] = l
		p.book.lanes = append(p.book.lanes, &l.lane)
	}
	p.since = p.now()
	p.book.allocate(func(*lane) Load { return Load{} })
	return p
}

// Slot is the right to compute one request.
type Slot struct {
	pool  *Pool
	line  *line
	began time.Time
}

// Enter waits for a slot for a model of the pool. Its errors are statuses: ResourceExhausted, and the context's.
func (p *Pool) Enter(ctx context.Context, model string) (Slot, error) {
	if err := ctx.Err(); err != nil {
		return Slot{}, status.FromContextError(err).Err()
	}
	line := p.lines[model]
	p.mutex.Lock()
	line.arrived++
	if p.book.take(&line.lane) {
		p.mutex.Unlock()
		return Slot{p, line, p.now()}, nil
	}
	if line.waiting >= p.limits.Queued {
		p.mutex.Unlock()
		return Slot{}, p.refused(line)
	}
	mine := &waiter{make(chan struct{})}
	at := line.queue.PushBack(mine)
	line.waiting++
	p.mutex.Unlock()
	select {
	case <-mine.ready:
		return Slot{p, line, p.now()}, nil
	case <-ctx.Done():
		p.giveUp(line, at)
		return Slot{}, status.FromContextError(ctx.Err()).Err()
	}
}

// Spare says whether less than half of the slots are held and nobody waits: by default there are twice as many as cores.
func (p *Pool) Spare() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.spare()
}

func (p *Pool) spare() bool {
	held := 0
	for _, line := range p.lines {
		if line.waiting > 0 {
			return false
		}
		held += line.running
	}
	return 2*held < p.limits.Concurrent
}

// TryEnter takes a slot that nobody else wants; false: there is none.
func (p *Pool) TryEnter(model string) (Slot, bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	line := p.lines[model]
	if !p.spare() || !p.book.take(&line.lane) {
		return Slot{}, false
	}
	line.arrived++
	return Slot{p, line, p.now()}, true
}

func (p *Pool) refused(line *line) error {
	return status.Errorf(codes.ResourceExhausted, "%d requests for %s wait, which is the most that limits.queued_requests"+
		" allows; try again later", p.limits.Queued, line.model)
}

// giveUp takes a waiter out of its line, or gives back the slot that it was given meanwhile.
func (p *Pool) giveUp(of *line, at *list.Element) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	select {
	case <-at.Value.(*waiter).ready:
		p.pass(of)
	default:
		of.queue.Remove(at)
		of.waiting--
	}
}

// Leave gives the slot to the next that waits.
func (s Slot) Leave() {
	held := s.pool.now().Sub(s.began)
	s.pool.mutex.Lock()
	defer s.pool.mutex.Unlock()
	s.line.ended++
	s.line.held += held
	s.pool.pass(s.line)
}

// pass ends a request of a line and wakes the one that is next.
func (p *Pool) pass(of *line) {
	next := p.book.give(&of.lane)
	if next == nil {
		return
	}
	line := p.lines[next.model]
	line.waiting--
	close(line.queue.Remove(line.queue.Front()).(*waiter).ready)
}
