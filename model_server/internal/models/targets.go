package models

import (
	"cmp"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// targetsOfRollback are the versions to roll back to, of which the first one that can be loaded is taken.
func (m *model) targetsOfRollback(version int64, stands standings) ([]candidate, error) {
	answering := stands.answering
	switch {
	case answering == 0:
		return nil, status.Errorf(codes.FailedPrecondition, "no version of %s answers that could be rolled back", m.Name)
	case version > answering:
		return nil, status.Errorf(codes.InvalidArgument, "version %d of %s is newer than %d, which answers; promote takes a newer one", version, m.Name, answering)
	case version == 0 && stands.split:
		return nil, status.Errorf(codes.FailedPrecondition, "requests for %s are shared out by traffic.split, so no one version was before;"+
			" `rollback %s:VERSION` pins one for all requests, and to drop a challenger change traffic.split", m.Name, m.Name)
	case version == 0 && stands.canary != 0 || version == answering:
		there, err := m.loadedNow(answering)
		return []candidate{there}, err
	}
	return m.older(answering, version)
}

// older finds the versions to roll back to on disk or among those that are loaded; 0: those that answered before, the last
// one first, then the newest ones; all older than the one that answers, not rejected, and such as the policy may pick.
func (m *model) older(answering, version int64) ([]candidate, error) {
	found, err := m.available()
	if err != nil {
		return nil, err
	}
	for i, each := range found {
		if there := m.served.Load().find(each.number); there != nil {
			found[i] = there.candidate // whatever took its place on disk
		}
		if each.number == version {
			return found[i : i+1], nil
		}
	}
	if version != 0 {
		return nil, m.notThere(version, found)
	}
	older := slices.DeleteFunc(slices.Clone(found), func(each candidate) bool { return each.number >= answering || !m.mayAnswer(each.number) })
	if len(older) == 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "%s has no version that is older than %d and was not rejected; %s",
			m.Name, answering, listed("available", textsOf(numbersIn(found))))
	}
	m.deciding.Lock()
	answered := m.held.Answered
	m.deciding.Unlock()
	slices.SortStableFunc(older, func(a, b candidate) int {
		return cmp.Compare(slices.Index(answered, b.number), slices.Index(answered, a.number))
	})
	return older, nil
}

// targetsOfPromote are the versions to promote, of which the first one that can be loaded is taken; 0: the canary under way,
// or else the newest ones.
func (m *model) targetsOfPromote(version int64, stands standings) ([]candidate, error) {
	if there := m.served.Load().find(stands.canary); version == 0 && there != nil {
		return []candidate{there.candidate}, nil
	}
	return m.newest(version, stands.answering)
}

// newest finds the versions to promote, of which the first one is meant; 0: the newest that the policy may pick, then
// older ones, of which those that are older than the one that answers were not rejected.
func (m *model) newest(version, answering int64) ([]candidate, error) {
	found, err := m.available()
	if err != nil {
		return nil, err
	}
	var targets []candidate
	for _, each := range found {
		if each.number == version {
			return []candidate{each}, nil
		}
		isNewer := each.number > answering && !m.goesOnFromMemory(each.number)
		isOlder := each.number <= answering && (len(targets) == 0 || m.mayAnswer(each.number))
		if version == 0 && m.mayPick(each.number) && (isNewer || isOlder) {
			targets = append(targets, each)
		}
	}
	switch {
	case version != 0:
		return nil, m.notThere(version, found)
	case len(targets) == 0:
		return nil, status.Errorf(codes.FailedPrecondition, "%s has no version to promote", m.Name)
	}
	return targets, nil
}

func (m *model) notThere(version int64, found []candidate) error {
	return status.Errorf(codes.NotFound, "%s has no version %d; %s", m.Name, version, listed("available", textsOf(numbersIn(found))))
}

// available are the versions on disk and those that are loaded, the newest first.
func (m *model) available() ([]candidate, error) {
	stop := m.remind("reading base_path", "base_path", m.BasePath)
	defer stop()
	found, _, err := m.scan()
	for _, each := range m.served.Load().versions {
		if !slices.ContainsFunc(found, func(other candidate) bool { return other.number == each.number }) {
			found = append(found, each.candidate)
		}
	}
	if len(found) == 0 && err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "base_path of %s cannot be read: %v", m.Name, err)
	}
	slices.SortFunc(found, newestFirst)
	return found, nil
}

// loadedNow is a version that answered a moment ago.
func (m *model) loadedNow(version int64) (candidate, error) {
	if there := m.served.Load().find(version); there != nil {
		return there.candidate, nil
	}
	return candidate{}, m.changed(version)
}

func (m *model) changed(version int64) error {
	return status.Errorf(codes.Aborted, "version %d of %s was unloaded meanwhile; call again", version, m.Name)
}

// goesOnFromMemory says whether a version is loaded, and was not on disk any more at the last look.
func (m *model) goesOnFromMemory(version int64) bool {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	return m.find(version) != nil && !m.isOnDisk(version)
}

func (m *model) mayPick(version int64) bool {
	return m.Versions.Specific == nil || slices.Contains(m.Versions.Specific, version)
}

func (m *model) mayAnswer(version int64) bool {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	return m.mayPick(version) && !m.held.Rejects(version)
}
