package metrics

import (
	"afo/model_server/internal/rollout"
)

// makeRollouts makes the metrics of how versions come to answer.
func (m *Metrics) makeRollouts() {
	m.gradient = gauges("model_newest_gradient_timestamp_seconds", "When the newest gradient in a version was applied.", "model", "version")
	m.canaries = counters("canaries_total", "Canaries that have begun, and how they ended (passed, rejected, removed, ended by a call).", "model", "result")
	m.rejected = counters("rejections_total", "Versions that are not taken up again by themselves: for errors, latency, scores, or by a call.", "model", "cause")
	m.mirrored = counters("mirrored_requests_total", "Requests that a version was asked for its answer alone (ok, error), or was to be (dropped).", "model", "result")
	m.pinned = gauges("model_pinned", "1 while a version is pinned and newer ones wait for a call.", "model")
	m.drift = gauges("score_psi", "Population stability index of the scores of a canary or a mirror.", "model", "of")
	m.registry.MustRegister(m.gradient, m.canaries, m.rejected, m.mirrored, m.pinned, m.drift)
}

// Canary implements models.RolloutEvents.
func (m *Metrics) Canary(model, result string) { m.canaries.WithLabelValues(model, result).Inc() }

// Rejected implements models.RolloutEvents.
func (m *Metrics) Rejected(model string, cause rollout.Cause) {
	m.rejected.WithLabelValues(model, string(cause)).Inc()
}

// Pinned implements models.RolloutEvents.
func (m *Metrics) Pinned(model string, pinned bool) {
	value := 0.0
	if pinned {
		value = 1
	}
	m.pinned.WithLabelValues(model).Set(value)
}

// Mirrored implements models.RolloutEvents.
func (m *Metrics) Mirrored(model, result string) { m.mirrored.WithLabelValues(model, result).Inc() }

// Drift implements models.RolloutEvents.
func (m *Metrics) Drift(model, of string, index *float64) {
	if index == nil {
		m.drift.DeleteLabelValues(model, of)
		return
	}
	m.drift.WithLabelValues(model, of).Set(*index)
}
