package models

import (
	"context"
	"fmt"
	"slices"
	"time"

	"afo/model_server/internal/rollout"
)

// judging is the time between two looks at canaries.
const judging = time.Second

// judge looks at the canaries of all models until the context ends.
func (r *Registry) judge(ctx context.Context) {
	ticker := time.NewTicker(judging)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, each := range r.models {
			each.judge()
		}
	}
}

// judge rejects the canary if its gate is broken, and gives it all requests if its time is over and the gate held.
func (m *model) judge() {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	m.turnWindows()
	if m.unsaved {
		m.keep(m.held)
	}
	m.tellMirror()
	if m.trial == nil {
		return
	}
	gate := m.Canary.Gate.Bounds()
	reading := gate.Read(&m.trial.Trial)
	m.shared.events.Drift(m.Name, "canary", reading.ScorePSI)
	verdict := gate.Judge(reading)
	over := m.shared.now().Sub(m.trial.since) >= m.Canary.Duration()
	switch {
	case verdict.Broken != "":
		m.reject(verdict.Broken, verdict.Reason)
	case over && verdict.Waits == "":
		m.pass(reading)
	case over && verdict.Waits != m.trial.waits:
		if m.trial.waits == "" {
			m.log.Warn("a canary waits though its duration is over: "+verdict.Waits, "version", m.trial.version)
		}
		m.trial.waits = verdict.Waits
	}
}

func (m *model) turnWindows() {
	now := m.shared.now()
	m.window.Turn(now)
	for _, each := range m.served.Load().versions {
		each.observed.window.Turn(now)
	}
}

func (m *model) tellMirror() {
	if mirror := m.served.Load().mirror; mirror != nil {
		m.shared.events.Drift(m.Name, "mirror", mirror.psi())
	}
}

// settle begins a canary with a version that is newer than the one that answers, and notes the one that does. Under
// deciding.
func (m *model) settle() {
	if m.Canary == nil {
		return
	}
	now := m.served.Load()
	stable := now.route.Default
	if stable != 0 && m.held.Stable != stable {
		held := m.held
		held.Stable = stable
		m.keep(held)
	}
	if m.trial != nil || m.held.Pinned != 0 || stable == 0 {
		return
	}
	i := slices.IndexFunc(now.versions, func(each *version) bool { return m.held.TakesUp(each.number) && m.isOnDisk(each.number) })
	if i < 0 || now.versions[i].number <= stable {
		return
	}
	newest := now.versions[i].number
	began := m.shared.now()
	m.trial = &trial{version: newest, since: began, salt: fmt.Sprintf("%s/%d", m.Name, newest)}
	m.publish(now.versions)
	m.shared.events.Canary(m.Name, "begun")
	m.log.Info("a canary begins", "version", newest, "stable", stable, "traffic_percent", m.Canary.TrafficPercent,
		"duration", m.Canary.Duration().String())
}

// reject takes the requests from a canary, which is not tried again by itself. Under deciding.
func (m *model) reject(cause rollout.Cause, reason string) {
	rejected := m.trial.version
	m.endTrial("rejected")
	m.keep(m.held.Rejecting(rejected, m.shared.now(), reason))
	m.shared.events.Rejected(m.Name, cause)
	m.publish(m.served.Load().versions)
	m.log.Error("a canary is rejected: "+reason+"; requests go to the version before it; promote tries it again, and promote --full takes it up nevertheless",
		"version", rejected, "serving", m.served.Load().route.Default)
	m.settle()
}

// pass gives a canary all requests. Under deciding.
func (m *model) pass(reading rollout.Reading) {
	passed := m.trial.version
	m.endTrial("passed")
	held := m.held
	held.Stable = passed
	m.keep(held)
	m.publish(m.served.Load().versions)
	m.log.Info("a canary has passed, and answers all requests", "version", passed, "requests", reading.Requests,
		"error_rate", reading.ErrorRate, "latency_ratio", *reading.LatencyRatio, "score_psi", *reading.ScorePSI)
	m.settle()
}

// notice takes over what a look found. It ends a canary whose directory was removed: so a version is taken back without a
// call. One whose directory is there again begins its canary.
func (m *model) notice(found []candidate) {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	m.onDisk = numbersIn(found)
	if m.trial != nil && !m.isOnDisk(m.trial.version) {
		m.log.Warn("a canary ends, as its directory is not there any more", "version", m.trial.version)
		m.endTrial("removed")
		m.publish(m.served.Load().versions) // the end of the look retires it
	}
	m.settle()
}

// isOnDisk is false of a version that goes on from memory. Under deciding.
func (m *model) isOnDisk(number int64) bool { return slices.Contains(m.onDisk, number) }

func (m *model) endTrial(result string) {
	m.trial = nil
	m.shared.events.Canary(m.Name, result)
	m.shared.events.Drift(m.Name, "canary", nil)
}

// keep holds what the server decides by itself: it goes on where that cannot be written, and tries again. Under deciding.
func (m *model) keep(held rollout.Held) {
	m.held = held
	err := m.shared.store.Keep(m.Name, held)
	if err != nil && !m.unsaved {
		m.log.Error("what is stable and rejected would be forgotten by a restart; it is tried again", "error", err)
	}
	m.unsaved = err != nil
}

// psi is the shift of the mirror's scores; nil: there are none.
func (m *mirror) psi() *float64 {
	if index, ok := rollout.PSI(&m.answered, &m.mirrored); ok {
		return &index
	}
	return nil
}
