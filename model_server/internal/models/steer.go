package models

import (
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
