package models

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

const (
	// stateWaiting is of a version that is newer than the one that answers, and that something else comes before. TensorFlow
	// Serving's API has no such state.
	stateWaiting = "WAITING"
	// mostWaiting is how many of those that nothing else is known of are listed, the newest; the others are counted. With
	// them and mostEnded, a thousand models are still an answer that a client reads.
	mostWaiting = 2
)

// waiting says why versions that are newer than the one that answers do not, by their numbers. Under deciding.
func (m *model) waiting() map[int64]string {
	reasons := map[int64]string{}
	ceiling := m.ceiling(m.onDisk)
	for _, number := range m.onDisk {
		reasons[number] = m.whyWaits(number, ceiling)
	}
	if m.shared.remote != nil {
		m.addRemote(reasons, m.shared.remote(m.Name), ceiling)
	}
	maps.DeleteFunc(reasons, func(_ int64, reason string) bool { return reason == "" })
	return reasons
}

// addRemote adds versions at the place that base_path is copied from, of which those that wait are not copied. Under deciding.
func (m *model) addRemote(reasons map[int64]string, there []int64, ceiling int64) {
	if len(there) == 0 {
		return
	}
	answers, newest := m.served.Load().route.Default, slices.Max(there)
	for _, number := range there {
		if _, here := reasons[number]; here || m.find(number) != nil {
			continue
		}
		reasons[number] = m.whyWaits(number, ceiling)
		isNext := m.Versions.Latest == 0 || number == newest
		if reasons[number] == "" && isNext && number > answers && !m.held.Rejects(number) {
			reasons[number] = "it is not copied from " + m.BasePath + " yet"
		}
	}
}

// whyWaits is "" for what need not wait, and for rejected versions, which tell so elsewhere. Under deciding.
func (m *model) whyWaits(number, ceiling int64) string {
	answers := m.served.Load().route.Default
	switch {
	case number <= answers || m.held.Rejects(number):
		return ""
	case !m.mayPick(number):
		return "model_version_policy.specific does not name it"
	case number > ceiling && m.held.Pinned != 0:
		return fmt.Sprintf("version %d is pinned; `afo serving promote %s` ends that", m.held.Pinned, m.Name)
	case number > ceiling && m.trial != nil:
		return fmt.Sprintf("the canary of version %d is under way", m.trial.version)
	case number > ceiling && m.Versions.Latest > 0:
		return fmt.Sprintf("version %d is loaded first, as it answered before the server was started", ceiling)
	case m.Versions.Latest > 0 && !m.held.TakesUp(number):
		return fmt.Sprintf("it is not newer than version %d, which was rejected or left", m.held.Floor)
	}
	return ""
}

// withWaiting are the states of versions, the newest first, with those that wait, and how many these are. Under deciding.
func (m *model) withWaiting(of []VersionState) ([]VersionState, int64) {
	reasons := m.waiting()
	count := int64(0)
	for i, each := range of {
		reason := reasons[each.Version]
		delete(reasons, each.Version)
		if reason == "" || each.Message != "" {
			continue
		}
		switch each.State {
		case StateEnd.String():
			of[i].State, of[i].Message = stateWaiting, reason
			count++
		case StateAvailable.String():
			of[i].Message = reason + "; it answers requests that name it"
		}
	}
	count += int64(len(reasons))
	unknown := slices.Sorted(maps.Keys(reasons))
	for _, number := range unknown[max(0, len(unknown)-mostWaiting):] {
		of = append(of, VersionState{Version: number, State: stateWaiting, Message: reasons[number]})
	}
	slices.SortFunc(of, func(a, b VersionState) int { return cmp.Compare(b.Version, a.Version) })
	return of, count
}
