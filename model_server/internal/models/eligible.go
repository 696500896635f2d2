package models

import (
	"math"
	"slices"
)

// hold takes over what was kept of the model before the server was started.
func (m *model) hold() {
	held, other := m.shared.store.Of(m.Name, m.BasePath)
	if other != "" {
		m.log.Warn("what control.state_file holds of the model is of another base_path, and does not count; it does again at that base_path", "of", other, "base_path", m.BasePath)
	}
	if m.Canary == nil {
		held.Stable = 0
	}
	m.held = held
	m.shared.events.Pinned(m.Name, held.Pinned != 0)
	if held.Pinned != 0 {
		m.log.Info("a version is pinned; newer ones wait for a promote", "version", held.Pinned)
	}
}

// eligible are the versions found that may be taken up. Of policies that name no newest version all are: the others
// answer requests that name them. Where nothing else is, and with a canary whatever is there, the version that answers goes
// on without its directory: an older one would answer at once. Under deciding.
func (m *model) eligible(found []candidate) []candidate {
	if m.Versions.Latest == 0 {
		return found
	}
	newest := m.ceiling(numbersIn(found))
	kept := slices.DeleteFunc(slices.Clone(found), func(each candidate) bool {
		return each.number > newest || !m.held.TakesUp(each.number)
	})
	answers := m.find(0)
	stays := answers != nil && (len(kept) == 0 || m.Canary != nil && m.held.Pinned == 0)
	if len(found) > 0 && stays && !slices.ContainsFunc(kept, func(each candidate) bool { return each.number == answers.number }) {
		kept = append(kept, answers.candidate)
		slices.SortFunc(kept, newestFirst)
	}
	return kept
}

// ceiling is the newest version that may be taken up: no newer one than is pinned, none beside a canary, and at the start
// first the one that was stable.
func (m *model) ceiling(found []int64) int64 {
	switch {
	case m.held.Pinned != 0:
		return m.held.Pinned
	case m.trial != nil:
		return m.trial.version
	case len(m.served.Load().versions) == 0 && slices.ContainsFunc(found, func(number int64) bool {
		return number <= m.held.Stable && m.standing(number) == untried
	}):
		return m.held.Stable
	}
	return math.MaxInt64
}

// withPinned has the pinned version too, whatever the policy picks. Under deciding.
func (m *model) withPinned(wanted, found []candidate) []candidate {
	pinned := m.held.Pinned
	is := func(each candidate) bool { return each.number == pinned }
	if pinned == 0 || slices.ContainsFunc(wanted, is) {
		return wanted
	}
	if i := slices.IndexFunc(found, is); i >= 0 {
		return append([]candidate{found[i]}, wanted...)
	}
	if there := m.served.Load().find(pinned); there != nil {
		return append([]candidate{there.candidate}, wanted...)
	}
	return wanted
}

// needed are versions that stay, whatever the policy picks. Under deciding.
func (m *model) needed() []int64 {
	numbers := []int64{m.held.Pinned}
	if m.trial != nil {
		numbers = append(numbers, m.trial.version, m.held.Stable)
	}
	return numbers
}
