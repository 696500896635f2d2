// Package rollout decides how a new version comes to answer all requests: what share it has, how it is compared with the
// one before, and what an operator has said. It knows neither models nor requests.
package rollout

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// Gate are the bounds that a canary is held to.
type Gate struct {
	MaxErrorRate    float64
	MaxLatencyRatio float64
	MaxScorePSI     float64
	// MinRequests are to be answered by both versions before they are compared.
	MinRequests int64
}

// Outcome is how a request ended.
type Outcome int

const (
	// Answered: with a response.
	Answered Outcome = iota
	// Refused: the request's fault, as the version has it.
	Refused
	// Failed: the server's fault.
	Failed
)

// Sample is what one of two versions did in the time of their comparison. Any number of goroutines may add to it.
type Sample struct {
	requests, refused, failed, scored atomic.Int64
	durations                         Durations
	scores                            Scores
}

// Add counts a request.
func (s *Sample) Add(outcome Outcome, took time.Duration) {
	s.requests.Add(1)
	switch outcome {
	case Answered:
		s.durations.Add(took)
	case Refused:
		s.refused.Add(1)
	case Failed:
		s.failed.Add(1)
	}
}

// Score counts a score of an answer.
func (s *Sample) Score(score float32) {
	s.scored.Add(1)
	s.scores.Add(score)
}

// Trial is a canary beside the stable version, since both have answered.
type Trial struct{ Canary, Stable Sample }

// Reading is how the canary stands. A number that is nil is not known yet: either version has answered too few.
type Reading struct {
	Requests     int64
	ErrorRate    float64
	LatencyRatio *float64
	ScorePSI     *float64
}

// Read compares what there is.
func (g Gate) Read(trial *Trial) Reading {
	canary, stable := &trial.Canary, &trial.Stable
	reading := Reading{Requests: canary.requests.Load(), ErrorRate: errorRate(canary, stable)}
	if ratio, ok := latencyRatio(canary, stable, g.MinRequests); ok {
		reading.LatencyRatio = &ratio
	}
	if g.tells(canary, stable) {
		if index, ok := PSI(&stable.scores, &canary.scores); ok {
			reading.ScorePSI = &index
		}
	}
	return reading
}

// tells says whether there are scores enough: two samples of the same scores have an index of about (quantiles-1)(1/n+1/m)
// by chance, which is to be a small part of the bound.
func (g Gate) tells(canary, stable *Sample) bool {
	here, there := canary.scored.Load(), stable.scored.Load()
	if min(here, there, canary.requests.Load(), stable.requests.Load()) < max(g.MinRequests, 1) {
		return false
	}
	return (quantiles-1)*(1/float64(here)+1/float64(there)) <= mostChance*g.MaxScorePSI
}

const mostChance = 0.25

// errorRate is the share of requests that failed, and of those that the canary refuses more often than the stable version
// does: one that takes other inputs refuses what clients send, and that is not their fault. Of the difference only what is
// beyond chance counts (three standard errors).
func errorRate(canary, stable *Sample) float64 {
	here, there := float64(canary.requests.Load()), float64(stable.requests.Load())
	if here == 0 {
		return 0
	}
	rate := float64(canary.failed.Load()) / here
	if there == 0 {
		return rate
	}
	refused, usual := float64(canary.refused.Load()), float64(stable.refused.Load())
	both := (refused + usual) / (here + there)
	chance := 3 * math.Sqrt(both*(1-both)*(1/here+1/there))
	return rate + max(0, refused/here-usual/there-chance)
}

// latencyRatio is that of the medians, which a few slow requests of either do not move.
func latencyRatio(canary, stable *Sample, least int64) (float64, bool) {
	var here, there Times
	here.add(&canary.durations)
	there.add(&stable.durations)
	if min(here.Total, there.Total) < max(least, 1) {
		return 0, false
	}
	median, _ := here.Quantile(0.5)
	usual, _ := there.Quantile(0.5)
	return float64(median) / float64(max(usual, 1)), true
}

// Cause is why a version was rejected, in a word for metrics.
type Cause string

// The causes.
const (
	ByErrors  Cause = "errors"
	ByLatency Cause = "latency"
	ByScores  Cause = "scores"
	ByCall    Cause = "call"
)

// Verdict is what the gate says of a reading.
type Verdict struct {
	// Broken is the bound that does not hold, "": none; Reason tells it with its number.
	Broken Cause
	Reason string
	// Waits is what cannot be judged yet, "": all was.
	Waits string
}

// Judge holds a reading to the bounds.
func (g Gate) Judge(reading Reading) Verdict {
	if reading.Requests < g.MinRequests {
		return Verdict{Waits: fmt.Sprintf("the canary has answered %d requests of gate.min_requests %d", reading.Requests, g.MinRequests)}
	}
	if reading.ErrorRate > g.MaxErrorRate {
		return Verdict{Broken: ByErrors, Reason: beyond("error rate", reading.ErrorRate, "max_error_rate", g.MaxErrorRate)}
	}
	if ratio := reading.LatencyRatio; ratio != nil && *ratio > g.MaxLatencyRatio {
		return Verdict{Broken: ByLatency, Reason: beyond("latency ratio", *ratio, "max_latency_ratio", g.MaxLatencyRatio)}
	}
	if index := reading.ScorePSI; index != nil && *index > g.MaxScorePSI {
		return Verdict{Broken: ByScores, Reason: beyond("score PSI", *index, "max_score_psi", g.MaxScorePSI)}
	}
	switch {
	case reading.LatencyRatio == nil:
		return Verdict{Waits: fmt.Sprintf("latencies are compared once both versions have answered %d requests (gate.min_requests)", g.MinRequests)}
	case reading.ScorePSI == nil:
		return Verdict{Waits: "scores are compared once both versions have given so many that chance is less than a quarter of gate.max_score_psi; they are floats, in an output"}
	}
	return Verdict{}
}

func beyond(what string, value float64, key string, bound float64) string {
	return fmt.Sprintf("%s %.4g exceeds gate.%s %g", what, value, key, bound)
}
