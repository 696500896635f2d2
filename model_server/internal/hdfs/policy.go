package hdfs

import (
	"errors"
	"maps"
	"slices"
)

// mostPassedOver is for how many versions that fail older ones are copied instead, as the server loads these.
const mostPassedOver = 8

// picked are the versions that the policy wants of those there, the newest first. Of the latest ones, those that fail do
// not count.
func (m *Copier) picked(there map[int64]remote) []int64 {
	newest := slices.Sorted(maps.Keys(there))
	slices.Reverse(newest)
	switch {
	case m.Policy.All:
		return newest
	case m.Policy.Specific != nil:
		return slices.DeleteFunc(newest, func(number int64) bool { return !slices.Contains(m.Policy.Specific, number) })
	}
	var found []int64
	left, passedOver := m.Policy.Latest, 0
	for _, number := range newest {
		if left == 0 {
			break
		}
		if m.fails(number) && passedOver < mostPassedOver {
			passedOver++
		} else {
			left--
		}
		found = append(found, number)
	}
	return found
}

// fails says whether a version cannot be copied, or not be loaded.
func (m *Copier) fails(number int64) bool {
	return m.failures[number].err != nil || m.Standing(number) == Failed
}

// unwanted are the versions here that are not picked, not used, and no parent of one that is. The newest one before
// the picked stays, to go back to.
func (m *Copier) unwanted(here map[int64]source, picked []int64) []int64 {
	if len(picked) == 0 {
		return nil
	}
	kept := map[int64]bool{}
	previous := int64(0)
	for number := range here {
		if slices.Contains(picked, number) || m.used(number) {
			m.keep(kept, here, number)
		}
		if number < picked[len(picked)-1] {
			previous = max(previous, number)
		}
	}
	m.keep(kept, here, previous)
	return without(here, kept)
}

// vanished are the versions here that are there no more, and no parent of one that is. Where nothing is there, nothing
// vanished: a directory that was emptied takes nothing out of service.
func (m *Copier) vanished(there map[int64]remote, here map[int64]source) []int64 {
	kept := map[int64]bool{}
	for number := range here {
		if _, ok := there[number]; ok || m.Standing(number) == Loading {
			m.keep(kept, here, number)
		}
	}
	return without(here, kept)
}

// keep marks a version, and those that it stands on.
func (m *Copier) keep(kept map[int64]bool, here map[int64]source, number int64) {
	for {
		if _, ok := here[number]; !ok || kept[number] {
			return
		}
		kept[number] = true
		parent, err := m.parent(number)
		if err != nil {
			return // it is damaged, and has no parents that could be told
		}
		number = parent
	}
}

func without(here map[int64]source, kept map[int64]bool) []int64 {
	var found []int64
	for number := range here {
		if !kept[number] {
			found = append(found, number)
		}
	}
	return found
}

// takeAway hides versions, which sweep deletes once they are not used.
func (m *Copier) takeAway(here map[int64]source, numbers []int64) error {
	var failed error
	for _, number := range numbers {
		if err := m.hide(number); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		delete(here, number)
		m.Log.Info("took a version out of the cache", "version", number, "from", m.URL)
	}
	return failed
}

// forget drops what is known of versions that are neither here nor there.
func (m *Copier) forget(there map[int64]remote, here map[int64]source) {
	gone := func(number int64) bool {
		_, isThere := there[number]
		_, isHere := here[number]
		return !isThere && !isHere
	}
	maps.DeleteFunc(m.checked, func(number int64, _ checked) bool { return gone(number) })
	maps.DeleteFunc(m.failures, func(number int64, _ failure) bool { return gone(number) })
}
