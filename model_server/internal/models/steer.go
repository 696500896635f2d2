package models

import (
	"fmt"
	"maps"
	"slices"

	"afo/model_server/internal/rollout"
)

func (m *model) rollBack(of call) ([]PassedOver, error) {
	stands := m.standings()
	targets, err := m.targetsOfRollback(of.version, stands)
	if err != nil {
		return nil, err
	}
	var rejected []int64
	passed, err := m.take(of, stands, targets, func(held rollout.Held, target int64) rollout.Held {
		now := m.standingsNow()
		for _, from := range []int64{stands.answering, now.answering, now.canary} {
			if from > target && !slices.Contains(rejected, from) {
				rejected = append(rejected, from)
				held = held.Rejecting(from, m.shared.now(), fmt.Sprintf("rolled back to version %d by a call", target))
			}
		}
		held.Pinned = target
		return m.answeredBy(target, held)
	})
	if err != nil {
		return nil, err
	}
	for range rejected {
		m.shared.events.Rejected(m.Name, rollout.ByCall)
	}
	return passed, nil
}

// promote makes a version answer all requests; 0: the canary under way, or the newest version.
func (m *model) promote(of call) ([]PassedOver, error) {
	stands := m.standings()
	targets, err := m.targetsOfPromote(of.version, stands)
	if err != nil {
		return nil, err
	}
	return m.take(of, stands, targets, func(held rollout.Held, target int64) rollout.Held { return m.promoted(held, target, of.version) })
}

// advance does the same to a canary under way, and to a version that has answered and was not rejected. Any other that is
// newer than the one that answers begins its canary, where there are such.
func (m *model) advance(of call) ([]PassedOver, error) {
	stands := m.standings()
	targets, err := m.targetsOfPromote(0, stands)
	if err != nil {
		return nil, err
	}
	return m.take(of, stands, targets, func(held rollout.Held, target int64) rollout.Held {
		now := m.standingsNow()
		proven := target == now.canary || held.Proven(target)
		if m.Canary == nil || now.answering == 0 || target <= now.answering || proven {
			return m.promoted(held, target, 0)
		}
		held = held.Retrying(target)
		held.Pinned, held.Stable = 0, now.answering
		return held
	})
}

// promoted is what is held once a version answers all requests by a call. Under deciding.
func (m *model) promoted(held rollout.Held, target, pin int64) rollout.Held {
	if now := m.standingsNow(); target < now.answering {
		held = held.Leaving(now.answering)
	}
	if pin == 0 && m.splits() {
		for _, label := range slices.Sorted(maps.Keys(m.Traffic.Split)) {
			held = held.Accepting(m.VersionLabels[label])
		}
	}
	held.Pinned = pin
	return m.answeredBy(target, held)
}

// answeredBy is what is held once a version answers all requests, or those that a split leaves. Under deciding.
func (m *model) answeredBy(target int64, held rollout.Held) rollout.Held {
	held = held.Accepting(target)
	if m.Canary != nil {
		held.Stable = target
	}
	if held.Pinned != 0 || !m.splits() {
		held = held.Answering(target)
	}
	return held
}

// splits says whether requests are shared out where no version is pinned.
func (m *model) splits() bool { return m.Traffic != nil && len(m.Traffic.Split) > 0 }

// standings are the version that answers and the canary (0: none), whether a split shares requests out, and how many calls
// had changed what is served.
type standings struct {
	answering, canary int64
	split             bool
	calls             int
}

func (m *model) standings() standings {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	return m.standingsNow()
}

// standingsNow is under deciding.
func (m *model) standingsNow() standings {
	now := standings{answering: m.served.Load().route.Default, split: m.splits() && m.held.Pinned == 0, calls: m.calls}
	if m.trial != nil {
		now.canary = m.trial.version
	}
	return now
}
