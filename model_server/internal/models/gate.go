package models

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// gate bounds how many requests are computed at once, and how many wait for it. One more is refused at once: an answer
// that comes too late costs as much as one in time.
type gate struct {
	slots   chan struct{}
	waiting atomic.Int64
	queued  int
}

func newGate(concurrent, queued int) *gate {
	return &gate{slots: make(chan struct{}, concurrent), queued: queued}
}

// enter waits for a slot, which leave gives back.
func (g *gate) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	default:
	}
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > int64(g.queued) {
		return status.Errorf(codes.ResourceExhausted, "%d requests are computed and %d wait, which is the most that"+
			" limits.concurrent_requests and limits.queued_requests allow; try again later", cap(g.slots), g.queued)
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (g *gate) leave() { <-g.slots }
