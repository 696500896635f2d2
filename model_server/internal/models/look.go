package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// run looks for versions until the context ends. What is served stays.
func (m *model) run(ctx context.Context) {
	ticker := time.NewTicker(m.shared.poll)
	defer ticker.Stop()
	for {
		m.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look loads what the policy wants, then retires what it does not. Before a wanted version answers nothing is retired,
// so that there is always one that does.
func (m *model) look(ctx context.Context) {
	stop := m.remind("reading base_path", "base_path", m.BasePath)
	found, problems, err := m.scan()
	stop()
	problems = append(problems, m.elsewhere()...)
	m.note(problems)
	found = m.kept(found, problems)
	if err == nil && len(found) == 0 {
		err = nothing(problems)
	}
	if err != nil {
		m.say(err)
		return
	}
	m.notice(found)
	m.tellWithheld(found)
	m.tellPin(found)
	picked := m.pick(found)
	if len(picked.candidates) == 0 {
		m.say(m.noneOf(found))
		return
	}
	m.lastSaid = ""
	m.forget(found, problems)
	tried := map[int64]bool{}
	for next := m.next(picked.candidates, tried); next != nil && ctx.Err() == nil; next = m.next(picked.candidates, tried) {
		tried[next.number] = true
		m.load(ctx, *next)
		picked = m.pick(found)
		m.retire(picked)
	}
	if ctx.Err() != nil {
		return
	}
	m.retire(picked)
	m.sayFallback(picked.candidates)
	m.checkLabels(numbersOf(m.Versions, picked.candidates))
}

// picked are the versions to be served, as things stood after so many calls.
type picked struct {
	candidates []candidate
	calls      int
}

// pick are the versions that the policy wants of those found, as far as they may be taken up.
func (m *model) pick(found []candidate) picked {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	return picked{m.pickNow(found), m.calls}
}

// pickNow is under deciding.
func (m *model) pickNow(found []candidate) []candidate {
	wanted := wanted(m.Versions, m.eligible(found), m.standing)
	return m.withoutReplaced(m.withPinned(wanted, found))
}

// standing is under deciding.
func (m *model) standing(number int64) standing {
	switch {
	case m.served.Load().find(number) != nil:
		return served
	case m.failures[number] != nil:
		return failed
	default:
		return untried
	}
}

// next is the version to load next, each once a look; nil: none.
func (m *model) next(picked []candidate, tried map[int64]bool) *candidate {
	for _, each := range picked {
		there := m.find(each.number)
		if tried[each.number] || there != nil && there.identity == each.identity {
			continue
		}
		if m.due(each) {
			return &each
		}
		tried[each.number] = true
	}
	return nil
}

// sayFallback logs that an older version is served because newer ones cannot be loaded, once for as long as it is so.
func (m *model) sayFallback(picked []candidate) {
	text := ""
	var newer []string
	for _, each := range picked {
		if m.find(each.number) != nil {
			if len(newer) > 0 {
				text = fmt.Sprintf("serving version %d, as %s cannot be loaded", each.number, strings.Join(newer, ", "))
			}
			break
		}
		newer = append(newer, fmt.Sprint(each.number))
	}
	if text != "" && text != m.lastFallback && m.Versions.Latest > 0 {
		m.log.Warn(text)
	}
	m.lastFallback = text
}

// due says whether a version is to be loaded that is not served. Only of one that failed all files are looked at.
func (m *model) due(of candidate) bool {
	m.deciding.Lock()
	failed := m.failures[of.number]
	m.deciding.Unlock()
	if failed == nil {
		return true
	}
	defer m.remind("reading a version that failed", "path", of.path)()
	return failed.due(m.shared.now(), attempt{of.identity, contentsOf(of.path)})
}

// note logs entries that are passed over, once each for as long as they say the same, and says it in their status.
func (m *model) note(problems []problem) {
	noted := map[string]string{}
	for _, each := range problems {
		noted[each.path] = each.err.Error()
		if m.noted[each.path] == noted[each.path] {
			continue
		}
		m.log.Warn("an entry of base_path is passed over", "path", each.path, "error", each.err)
		if each.number != 0 && m.find(each.number) == nil {
			m.set(each.number, StateEnd, each.err)
		}
	}
	m.noted = noted
}

// kept are the versions found, and those that are served while their directories cannot be read: these go on.
func (m *model) kept(found []candidate, problems []problem) []candidate {
	for _, each := range problems {
		served := m.find(each.number)
		here := func(of candidate) bool { return of.number == each.number }
		if each.number != 0 && served != nil && !slices.ContainsFunc(found, here) {
			found = append(found, served.candidate)
		}
	}
	slices.SortFunc(found, newestFirst)
	return found
}

func newestFirst(a, b candidate) int { return cmp.Compare(b.number, a.number) }

// checkLabels logs labels of versions that are not picked, once, after the first look that found versions. They are no
// errors: the version may come.
func (m *model) checkLabels(numbers []int64) {
	if m.labelsChecked {
		return
	}
	m.labelsChecked = true
	for _, label := range slices.Sorted(maps.Keys(m.VersionLabels)) {
		if number := m.VersionLabels[label]; !slices.Contains(numbers, number) {
			m.log.Warn("a label names a version that model_version_policy does not pick; requests for it are refused until"+
				" it does", "label", label, "version", number, "picked", numbers)
		}
	}
}

// nothing says why no version was found.
func nothing(problems []problem) error {
	if len(problems) > 0 {
		return fmt.Errorf("it holds no version that can be read; %s: %w", problems[0].path, problems[0].err)
	}
	return errors.New("it holds no version: a directory with a number for its name that has a saved_model.pb")
}

// noneOf says why none of the versions found is wanted.
func (m *model) noneOf(found []candidate) error {
	versions := listed("found", textsOf(numbersIn(found)))
	if m.Versions.Specific != nil {
		return fmt.Errorf("it holds none of the versions of model_version_policy.specific; %s; %s",
			listed("named", textsOf(m.Versions.Specific)), versions)
	}
	return fmt.Errorf("each version that it holds was rejected, or is newer than the one that is pinned; %s; promote one of them", versions)
}

// say logs what keeps the model from being looked for, once for as long as it is the same.
func (m *model) say(err error) {
	if text := m.remains() + err.Error(); text != m.lastSaid {
		m.lastSaid = text
		m.log.Warn("base_path cannot be used; "+m.remains(), "base_path", m.BasePath, "error", err)
	}
}

// remains says what is served where nothing new is.
func (m *model) remains() string {
	if len(m.served.Load().versions) == 0 {
		return "no version is served"
	}
	return "what is served stays"
}

// forget drops failures of versions that are not there any more. Those that newer ones have taken the place of keep theirs:
// where a newer one fails as well, each would be tried again at once.
func (m *model) forget(found []candidate, problems []problem) {
	there := map[int64]bool{}
	for _, each := range found {
		there[each.number] = true
	}
	for _, each := range problems {
		there[each.number] = true
	}
	m.deciding.Lock()
	defer m.deciding.Unlock()
	maps.DeleteFunc(m.failures, func(number int64, _ *failure) bool { return !there[number] })
}
