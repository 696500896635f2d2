package models

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"afo/model_server/internal/rollout"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// calls are those under way that steer versions: the registry is closed after them.
type calls struct {
	mutex   sync.Mutex
	ended   bool
	running sync.WaitGroup
}

// begin is false once the registry is being closed.
func (c *calls) begin() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !c.ended {
		c.running.Add(1)
	}
	return !c.ended
}

func (c *calls) end() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.ended = true
}

// Rollback sends requests that name no version to an older one and pins it; 0: the one that answered before the one that
// answers, or where a canary is under way, the one that answers beside it. By is who calls, for the log.
func (r *Registry) Rollback(name string, version int64, by string) error {
	return r.steer(name, call{"rollback", version, by, r.shared.now()}, (*model).rollBack)
}

// Promote sends them to a version and pins it; 0: to the canary under way, or else the newest version, and ends the pin.
func (r *Registry) Promote(name string, version int64, by string) error {
	return r.steer(name, call{"promote", version, by, r.shared.now()}, (*model).promote)
}

// call is one that steers the versions of a model. Version 0: it names none.
type call struct {
	what    string
	version int64
	by      string
	since   time.Time
}

func (c call) String() string {
	of := ""
	if c.version != 0 {
		of = fmt.Sprintf(" to version %d", c.version)
	}
	return fmt.Sprintf("a %s%s by %s since %s", c.what, of, c.by, c.since.UTC().Format(time.RFC3339))
}

// steer makes a call. It goes on where its caller has gone: a load cannot be interrupted.
func (r *Registry) steer(name string, of call, do func(*model, call) error) (err error) {
	defer func() {
		if err != nil {
			r.shared.log.Warn("a call failed, and has changed nothing", "model", name, "call", of.what, "version", of.version, "by", of.by, "error", err)
		}
	}()
	m, err := r.find(name)
	if err != nil {
		return err
	}
	if of.version < 0 {
		return status.Errorf(codes.InvalidArgument, "version is %d; allowed: 1 or more, or none", of.version)
	}
	if !r.calls.begin() {
		return status.Error(codes.Unavailable, "the server is stopping")
	}
	defer r.calls.running.Done()
	return do(m, of)
}

func (m *model) rollBack(of call) error {
	stands := m.standings()
	targets, err := m.targetsOfRollback(of.version, stands)
	if err != nil {
		return err
	}
	var rejected []int64
	err = m.take(of, stands, targets, func(held rollout.Held, target int64) rollout.Held {
		now := m.standingsNow()
		for _, from := range []int64{stands.answering, now.answering, now.canary} {
			if from > target && !slices.Contains(rejected, from) {
				rejected = append(rejected, from)
				held = held.Rejecting(from, m.shared.now(), fmt.Sprintf("rolled back to version %d by a call", target))
			}
		}
		held.Pinned = target
		return held
	})
	if err != nil {
		return err
	}
	for range rejected {
		m.shared.events.Rejected(m.Name, rollout.ByCall)
	}
	return nil
}

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

func (m *model) promote(of call) error {
	stands := m.standings()
	var targets []candidate
	if there := m.served.Load().find(stands.canary); of.version == 0 && there != nil {
		targets = []candidate{there.candidate}
	} else {
		var err error
		if targets, err = m.newest(of.version); err != nil {
			return err
		}
	}
	return m.take(of, stands, targets, func(held rollout.Held, target int64) rollout.Held {
		if now := m.standingsNow(); target < now.answering {
			held = held.Leaving(now.answering)
		}
		if of.version == 0 && m.splits() {
			for _, label := range slices.Sorted(maps.Keys(m.Traffic.Split)) {
				held = held.Accepting(m.VersionLabels[label])
			}
		}
		held.Pinned = of.version
		return held
	})
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

// take makes the first of some versions that can be loaded answer all requests that name none. What fails changes nothing.
// One that is loaded waits for no other call: a call that is loading meanwhile is refused once it has loaded.
func (m *model) take(of call, stands standings, targets []candidate, holding func(held rollout.Held, target int64) rollout.Held) error {
	var loaded *version
	target := targets[0]
	if !m.isLoaded(target) {
		leave, err := m.enter(of)
		if err != nil {
			return err
		}
		defer leave()
		if target, loaded, err = m.firstLoadable(targets); err != nil {
			return err
		}
	}
	hold := func(held rollout.Held) rollout.Held { return holding(held, target.number) }
	unused, err := m.apply(target.number, loaded, stands, hold)
	if unused != nil {
		unused.model.Close()
		if m.served.Load().find(target.number) == nil {
			m.set(target.number, StateEnd, nil)
		}
	}
	if err != nil {
		return err
	}
	done := map[string]string{"rollback": "rolled back to", "promote": "promoted"}[of.what]
	m.log.Warn("a version is "+done+" by a call, and answers", "version", target.number, "by", of.by, "pinned", m.pinned())
	return nil
}

func (m *model) isLoaded(of candidate) bool {
	there := m.served.Load().find(of.number)
	return there != nil && there.identity == of.identity
}

// enter makes a call the one that loads, until it leaves. Another one is named.
func (m *model) enter(of call) (leave func(), err error) {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	if m.calling != nil {
		return nil, status.Errorf(codes.Aborted, "another call changes the versions of %s: %s; ask for the state, and call again if it is needed still,"+
			" or call for a version that is loaded, which is taken at once", m.Name, *m.calling)
	}
	m.calling = &of
	return func() {
		m.deciding.Lock()
		defer m.deciding.Unlock()
		m.calling = nil
	}, nil
}

// firstLoadable passes over versions that cannot be loaded. Where none can it is the first one's error.
func (m *model) firstLoadable(targets []candidate) (candidate, *version, error) {
	var first error
	var passed []int64
	for _, target := range targets[:min(len(targets), mostPassedOver+1)] {
		if m.isLoaded(target) {
			m.sayPassed(target.number, passed)
			return target, nil, nil
		}
		loaded, err := m.loadForCall(target)
		if err == nil {
			m.sayPassed(target.number, passed)
			return target, loaded, nil
		}
		passed = append(passed, target.number)
		if first == nil {
			first = err
		}
	}
	return candidate{}, nil, first
}

func (m *model) sayPassed(taken int64, passed []int64) {
	if len(passed) > 0 {
		m.log.Warn("a call takes a version, as others cannot be loaded", "version", taken, "passed_over", passed)
	}
}

// loadForCall does not wait for other loads: who rolls back is in a hurry.
func (m *model) loadForCall(target candidate) (*version, error) {
	m.set(target.number, StateLoading, nil)
	stop := m.remind("loading", "version", target.number, "path", target.path)
	defer stop()
	began := time.Now()
	loaded, warmed, err := m.loaded(context.Background(), target)
	m.shared.events.Loaded(m.Name, target.number, time.Since(began), err)
	if err != nil {
		m.set(target.number, StateEnd, err)
		m.log.Error("a version that a call asks for cannot be loaded; "+m.remains(), "version", target.number, "path", target.path, "error", err)
		return nil, status.Errorf(codes.FailedPrecondition, "version %d of %s cannot be loaded, and nothing has changed: %s",
			target.number, m.Name, status.Convert(err).Message())
	}
	m.sayServing(loaded, warmed, time.Since(began))
	return loaded, nil
}

// apply is the change itself. Unused is a version that was loaded in vain.
func (m *model) apply(number int64, loaded *version, stands standings, holding func(rollout.Held) rollout.Held) (unused *version, err error) {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	if m.calls != stands.calls {
		return loaded, status.Errorf(codes.Aborted, "another call has changed which version of %s answers meanwhile; nothing more has changed:"+
			" ask for the state, and call again if it is needed still", m.Name)
	}
	there := m.served.Load().find(number)
	if there == nil && loaded == nil {
		return nil, m.changed(number)
	}
	held := holding(m.held.Accepting(number))
	if m.Canary != nil {
		held.Stable = number
	}
	if held.Pinned != 0 || !m.splits() {
		held = held.Answering(number)
	}
	if err := m.shared.store.Keep(m.Name, held); err != nil {
		return loaded, status.Errorf(codes.Internal, "nothing has changed: %v", err)
	}
	m.held, m.unsaved = held, false
	m.calls++
	if m.trial != nil {
		m.endTrial("ended by a call")
	}
	if loaded != nil && (there == nil || there.identity != loaded.identity) {
		m.serve(loaded)
	} else {
		m.publish(m.served.Load().versions)
		m.settle()
		unused = loaded
	}
	m.shared.events.Pinned(m.Name, held.Pinned != 0)
	m.shared.changed()
	return unused, nil
}

func (m *model) pinned() bool {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	return m.held.Pinned != 0
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

// newest finds the versions to promote, of which the first one is meant; 0: the newest that the policy may pick, then
// older ones that were not rejected.
func (m *model) newest(version int64) ([]candidate, error) {
	found, err := m.available()
	if err != nil {
		return nil, err
	}
	var targets []candidate
	for _, each := range found {
		if each.number == version {
			return []candidate{each}, nil
		}
		if version == 0 && m.mayPick(each.number) && (len(targets) == 0 || m.mayAnswer(each.number)) {
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

func (m *model) mayPick(version int64) bool {
	return m.Versions.Specific == nil || slices.Contains(m.Versions.Specific, version)
}

func (m *model) mayAnswer(version int64) bool {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	return m.mayPick(version) && !m.held.Rejects(version)
}
