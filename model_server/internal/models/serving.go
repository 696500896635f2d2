package models

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"afo/model_server/internal/rollout"
)

// serving is what requests see: the versions that answer, the newest first, and which of them one gets that names none.
// It is never changed, only replaced, so that requests take no lock.
type serving struct {
	versions []*version
	route    rollout.Route
	trial    *trial
	mirror   *mirror
}

// find is the version of a number, nil where it is not there.
func (s *serving) find(number int64) *version {
	for _, each := range s.versions {
		if each.number == number {
			return each
		}
	}
	return nil
}

func (s *serving) numbers() []int64 {
	numbers := make([]int64, 0, len(s.versions))
	for _, each := range s.versions {
		numbers = append(numbers, each.number)
	}
	return numbers
}

// publish makes the versions that requests see, shares them out as things stand, and notes which one answers. Under deciding.
func (m *model) publish(versions []*version) {
	slices.SortFunc(versions, func(a, b *version) int { return cmp.Compare(b.number, a.number) })
	next := &serving{versions: versions, trial: m.trial}
	next.route = rollout.Route{Default: m.defaultOf(next.numbers()), Salt: m.Name}
	switch {
	case m.trial != nil && next.find(m.trial.version) != nil:
		next.route.HashHeader, next.route.Salt = m.Canary.HashHeader, m.trial.salt
		next.route.Shares = []rollout.Share{{Version: m.trial.version, Percent: m.Canary.TrafficPercent}}
	case m.Traffic != nil && m.held.Pinned == 0:
		m.split(next)
	}
	next.mirror = m.mirrorOf(next)
	m.served.Store(next)
	if answers := next.route.Default; answers != 0 && answers != m.held.Answers() {
		m.keep(m.held.Answering(answers))
	}
}

// defaultOf is the version that has what no share takes. Under deciding.
func (m *model) defaultOf(numbers []int64) int64 {
	canary := int64(0)
	if m.trial != nil {
		canary = m.trial.version
	}
	return m.held.Default(numbers, canary)
}

// split has shares of labels, in an order that a restart does not change. What is asked of the model as such, as its
// signatures, is of the largest one.
func (m *model) split(of *serving) {
	shares, largest := rollout.SplitOf(slices.Sorted(maps.Keys(m.Traffic.Split)), m.Traffic.Split, func(label string) int64 {
		if number := m.VersionLabels[label]; of.find(number) != nil && !m.held.Rejects(number) {
			return number
		}
		return 0
	})
	if largest != 0 {
		of.route.HashHeader, of.route.Shares, of.route.Default = m.Traffic.HashHeader, shares, largest
	}
}

// trial is a canary under way.
type trial struct {
	version int64
	since   time.Time
	// salt makes other users the first ones of each canary.
	salt string
	rollout.Trial
	// waits is what was logged that it waits for.
	waits string
}

// sampleOf is where a request that names no version counts.
func (t *trial) sampleOf(version int64) *rollout.Sample {
	if version == t.version {
		return &t.Canary
	}
	return &t.Stable
}

// chance is a number from 0 to 1.
func chance() float64 { return rand.Float64() }
