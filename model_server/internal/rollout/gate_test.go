package rollout

import (
	"strings"
	"testing"
	"time"
)

var bounds = Gate{MaxErrorRate: 0.01, MaxLatencyRatio: 1.5, MaxScorePSI: 0.2, MinRequests: 100}

// did is a number of requests that ended alike.
func (s *Sample) did(count int, outcome Outcome, took time.Duration, score float32) {
	for range count {
		s.Add(outcome, took)
		if outcome == Answered {
			s.Score(score)
		}
	}
}

func TestAGateHoldsAndBreaks(t *testing.T) {
	for name, each := range map[string]struct {
		canary func(*Sample)
		broken Cause
		says   string
	}{
		"alike":     {func(s *Sample) { s.did(250, Answered, 10*time.Millisecond, 0.25) }, "", ""},
		"by chance": {func(s *Sample) { s.did(100, Answered, 10*time.Millisecond, 0.5) }, "", "scores are compared once"},
		"too few":   {func(s *Sample) { s.did(99, Failed, time.Hour, 0) }, "", "99 requests of gate.min_requests 100"},
		"one fails": {func(s *Sample) { s.did(99, Answered, 10*time.Millisecond, 0.25); s.did(1, Failed, 0, 0) }, "", "latencies are compared once"},
		"two fail": {func(s *Sample) { s.did(98, Answered, 10*time.Millisecond, 0.25); s.did(2, Failed, 0, 0) },
			ByErrors, "error rate 0.02 exceeds gate.max_error_rate 0.01"},
		"as many refused": {func(s *Sample) { s.did(250, Answered, 10*time.Millisecond, 0.25); s.did(28, Refused, 0, 0) }, "", ""},
		"other inputs":    {func(s *Sample) { s.did(200, Refused, 0, 0) }, ByErrors, "error rate"},
		"slow":            {func(s *Sample) { s.did(100, Answered, 16*time.Millisecond, 0.25) }, ByLatency, "exceeds gate.max_latency_ratio 1.5"},
		"other scores":    {func(s *Sample) { s.did(250, Answered, 10*time.Millisecond, 0.5) }, ByScores, "exceeds gate.max_score_psi 0.2"},
		"no scores": {func(s *Sample) {
			for range 100 {
				s.Add(Answered, 10*time.Millisecond)
			}
		}, "", "scores are compared once"},
	} {
		trial := &Trial{}
		trial.Stable.did(900, Answered, 10*time.Millisecond, 0.25)
		trial.Stable.did(100, Refused, 0, 0)
		each.canary(&trial.Canary)
		verdict := bounds.Judge(bounds.Read(trial))
		text := verdict.Waits + verdict.Reason
		if verdict.Broken != each.broken || !strings.Contains(text, each.says) || (each.says == "") != (text == "") {
			t.Errorf("%s: %+v", name, verdict)
		}
	}
}

func TestAGateNeedsTheStableVersionsAnswers(t *testing.T) {
	trial := &Trial{}
	trial.Canary.did(1000, Answered, time.Hour, 0.9)
	trial.Stable.did(99, Answered, time.Millisecond, 0.1)
	reading := bounds.Read(trial)
	if reading.LatencyRatio != nil || reading.ScorePSI != nil || bounds.Judge(reading).Waits == "" {
		t.Errorf("%+v", reading)
	}
}
