package models

import (
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// withheld is a SavedModel on disk that only a call takes up.
type withheld struct {
	identity identity
	reason   string
}

// guarded says whether a version is not replaced by another SavedModel of its number: the one that answers where a canary
// or a pin says which that is. Under deciding.
func (m *model) guarded(served *version) bool {
	return served.number == m.served.Load().route.Default && (m.Canary != nil || m.held.Pinned != 0)
}

// withoutReplaced has what is loaded in the place of another SavedModel of the number that is guarded. Under deciding.
func (m *model) withoutReplaced(picked []candidate) []candidate {
	picked = slices.Clone(picked)
	for i, each := range picked {
		if served := m.find(each.number); served != nil && m.guarded(served) {
			picked[i] = served.candidate
		}
	}
	return picked
}

// tellWithheld logs what is found and only a call takes up, once for as long as it is the same, and says it in its status.
func (m *model) tellWithheld(found []candidate) {
	m.deciding.Lock()
	before := m.withheld
	m.withheld = map[int64]withheld{}
	taken := numbersIn(m.pickNow(found))
	for _, each := range found {
		if reason := m.whyWithheld(each, found, taken); reason != "" {
			m.withheld[each.number] = withheld{each.identity, reason}
		}
	}
	m.rejectedAs = m.identitiesOfRejected(found)
	now := m.withheld
	m.deciding.Unlock()
	for _, each := range found {
		if of := now[each.number]; of.reason != "" && of != before[each.number] {
			text := fmt.Sprintf("%s; `afo serving promote %s:%d` takes it up", of.reason, m.Name, each.number)
			m.log.Warn("a SavedModel is not taken up: "+text, "version", each.number, "path", each.path)
			m.set(each.number, StateEnd, status.Error(codes.FailedPrecondition, "the SavedModel on disk is not taken up: "+text))
		}
	}
	for number := range before {
		if _, still := now[number]; !still && m.find(number) != nil {
			m.clear(number)
		}
	}
}

// whyWithheld is "" for what may be taken up, and for rejected versions that are as they were. Taken are versions
// that the policy picks. Under deciding.
func (m *model) whyWithheld(of candidate, found []candidate, taken []int64) string {
	served := m.find(of.number)
	answers := m.served.Load().route.Default
	switch {
	case served != nil && m.guarded(served) && served.identity != of.identity:
		return fmt.Sprintf("it is another one than the version %d that answers, which goes on from memory", of.number)
	case served != nil:
		return ""
	case m.held.Rejects(of.number):
		if was, known := m.rejectedAs[of.number]; known && was != of.identity {
			return fmt.Sprintf("version %d was rejected, and another SavedModel is under its number", of.number)
		}
		return ""
	case m.Versions.Latest == 0 || m.held.Pinned != 0 || answers == 0:
		return ""
	case !m.held.TakesUp(of.number):
		return fmt.Sprintf("version %d is not newer than %d, which was rejected or left", of.number, m.held.Floor)
	case m.Canary != nil && of.number < answers && of.number == found[0].number && !slices.Contains(taken, of.number):
		return fmt.Sprintf("version %d is older than %d, which answers and goes on from memory", of.number, answers)
	}
	return ""
}

// identitiesOfRejected are those of rejected versions, as they are found first after their rejection. Under deciding.
func (m *model) identitiesOfRejected(found []candidate) map[int64]identity {
	known := map[int64]identity{}
	for _, each := range found {
		if !m.held.Rejects(each.number) {
			continue
		}
		known[each.number] = each.identity
		if was, ok := m.rejectedAs[each.number]; ok {
			known[each.number] = was
		}
	}
	return known
}

// tellPin logs once that the pinned version is gone, and notes whether a promote would help where no
// version answers.
func (m *model) tellPin(found []candidate) {
	m.deciding.Lock()
	pinned, allowed := m.held.Pinned, m.eligible(found)
	m.deciding.Unlock()
	m.promoteHelps.Store(len(allowed) < len(found) || m.Versions.Latest == 0 && pinned != 0)
	text := ""
	switch {
	case pinned == 0 || slices.Contains(numbersIn(found), pinned):
	case m.find(pinned) != nil:
		text = "the pinned version is gone from base_path, and goes on from memory until the server ends"
	default:
		text = "the pinned version is gone; an older one answers, if any"
	}
	if text != "" && text != m.lostPin {
		m.log.Warn(fmt.Sprintf("%s; `afo serving promote %s` takes the newest one, and `promote %s:N` pins another", text, m.Name, m.Name),
			"pinned", pinned, "found", numbersIn(found))
	}
	m.lostPin = text
}

// PromoteHelps says whether a model has versions on disk that are not taken up for a pin or rejections.
func (r *Registry) PromoteHelps(model string) bool {
	m, err := r.find(model)
	return err == nil && m.promoteHelps.Load()
}
