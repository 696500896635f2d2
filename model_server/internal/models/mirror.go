package models

import (
	"context"
	"sync/atomic"

	"afo/model_server/internal/concurrency"
	"afo/model_server/internal/rollout"
)

const (
	// What waits to be mirrored is bounded in number and in bytes.
	mostMirrored      = 64
	mostMirroredBytes = 64 << 20
)

// mirror is the version that is asked too, and what it answered beside the one that answers.
type mirror struct {
	version int64
	// beside is the version that has most of the requests: with another one scores are counted anew.
	beside             int64
	answered, mirrored rollout.Scores
}

// mirrorCounts are a model's, whichever versions there are.
type mirrorCounts struct{ requests, dropped, errors atomic.Int64 }

// mirrorOf is the mirror of what is served; nil: none. Under deciding.
func (m *model) mirrorOf(of *serving) *mirror {
	if m.Traffic == nil || m.Traffic.Mirror == nil {
		return nil
	}
	number := m.VersionLabels[m.Traffic.Mirror.Label]
	if of.find(number) == nil {
		return nil
	}
	if before := m.served.Load().mirror; before != nil && before.version == number && before.beside == of.route.Default {
		return before
	}
	return &mirror{version: number, beside: of.route.Default}
}

// copied is a request that was answered, to be asked again.
type copied struct {
	model             *model
	to                *mirror
	request, response []byte
}

func (c copied) size() int64 { return int64(len(c.request) + len(c.response)) }

// mirroring asks versions once more, of which nobody waits for the answers, in slots that are spare.
type mirroring struct {
	slots *concurrency.Pool
	queue chan copied
	bytes atomic.Int64
}

func newMirroring(slots *concurrency.Pool) *mirroring {
	return &mirroring{slots: slots, queue: make(chan copied, mostMirrored)}
}

// offer takes a share of the requests that were answered, by chance, as far as there is room.
func (q *mirroring) offer(m *model, among *serving, by int64, request, response []byte) {
	if among == nil || among.mirror == nil || among.mirror.version == by || 100*chance() >= m.Traffic.Mirror.Percent {
		return
	}
	size := int64(len(request) + len(response))
	if !q.slots.Spare() || len(q.queue) == cap(q.queue) || !q.reserve(size) {
		m.dropMirrored()
		return
	}
	// The request's bytes are its caller's, who gives them back.
	select {
	case q.queue <- copied{m, among.mirror, append([]byte{}, request...), response}:
	default:
		q.bytes.Add(-size)
		m.dropMirrored()
	}
}

// reserve counts bytes that will wait; false: there is no room.
func (q *mirroring) reserve(size int64) bool {
	if q.bytes.Add(size) <= mostMirroredBytes {
		return true
	}
	q.bytes.Add(-size)
	return false
}

func (m *model) dropMirrored() {
	m.mirrored.dropped.Add(1)
	m.shared.events.Mirrored(m.Name, "dropped")
}

// run computes one at a time, until the context ends.
func (q *mirroring) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-q.queue:
			q.bytes.Add(-next.size())
			q.ask(next)
		}
	}
}

func (q *mirroring) ask(of copied) {
	m := of.model
	to := m.served.Load().find(of.to.version)
	if to == nil || !to.acquire() {
		m.dropMirrored()
		return
	}
	defer to.release()
	slot, ok := q.slots.TryEnter(m.Name)
	if !ok {
		m.dropMirrored()
		return
	}
	defer slot.Leave()
	response, err := to.model.Process(of.request)
	m.mirrored.requests.Add(1)
	if err != nil {
		m.mirrored.errors.Add(1)
		m.shared.events.Mirrored(m.Name, "error")
		return
	}
	m.shared.events.Mirrored(m.Name, "ok")
	eachScore(of.response, of.to.answered.Add)
	eachScore(response, of.to.mirrored.Add)
}
