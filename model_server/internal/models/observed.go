package models

import (
	"sync/atomic"
	"time"

	"afo/model_server/internal/rollout"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// observed is what a version has computed. Any number of goroutines add; its window is turned and read under deciding.
type observed struct {
	loaded           time.Time
	requests, errors atomic.Int64
	window           *rollout.Window
}

func newObserved(now time.Time) *observed {
	return &observed{loaded: now, window: rollout.NewWindow(now)}
}

func (o *observed) add(outcome rollout.Outcome, took time.Duration) {
	o.requests.Add(1)
	if outcome == rollout.Failed {
		o.errors.Add(1)
	}
	o.window.Add(took)
}

// outcomeOf tells whose fault an error of a model is.
func outcomeOf(err error) rollout.Outcome {
	switch status.Code(err) {
	case codes.OK:
		return rollout.Answered
	case codes.Internal, codes.Unknown, codes.DataLoss, codes.Unavailable, codes.Unimplemented:
		return rollout.Failed
	default:
		return rollout.Refused
	}
}

// observe counts a request that a version has computed; among is what it was shared out by, nil where it named one.
func (m *model) observe(of *version, among *serving, response []byte, err error, took time.Duration) {
	outcome := outcomeOf(err)
	of.observed.add(outcome, took)
	m.window.Add(took)
	if among == nil || among.trial == nil {
		return
	}
	sample := among.trial.sampleOf(of.number)
	sample.Add(outcome, took)
	if outcome == rollout.Answered {
		eachScore(response, sample.Score)
	}
}
