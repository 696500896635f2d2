package models

import (
	"context"
	"time"

	"afo/model_server/internal/rollout"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// take has the first of some versions that can be loaded answer as holding says. What fails changes nothing.
// One that is loaded waits for no other call: a call that is loading meanwhile is refused once it has loaded.
func (m *model) take(of call, stands standings, targets []candidate, holding func(held rollout.Held, target int64) rollout.Held) ([]PassedOver, error) {
	var passed []PassedOver
	var loaded *version
	target := targets[0]
	if !m.isLoaded(target) {
		leave, err := m.enter(of)
		if err != nil {
			return nil, err
		}
		defer leave()
		if target, loaded, passed, err = m.firstLoadable(targets); err != nil {
			return nil, err
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
		return nil, err
	}
	m.sayTaken(of, target.number)
	return passed, nil
}

func (m *model) sayTaken(of call, version int64) {
	m.deciding.Lock()
	pinned, isTried := m.held.Pinned != 0, m.trial != nil && m.trial.version == version
	m.deciding.Unlock()
	done := map[string]string{"rollback": "rolled back to", "promote": "promoted"}[of.what]
	does := "answers"
	if isTried {
		does = "begins its canary"
	}
	m.log.Warn("a version is "+done+" by a call, and "+does, "version", version, "by", of.by, "pinned", pinned)
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
func (m *model) firstLoadable(targets []candidate) (taken candidate, loaded *version, passed []PassedOver, err error) {
	var first error
	for _, target := range targets[:min(len(targets), mostPassedOver+1)] {
		if m.isLoaded(target) {
			m.sayPassed(target.number, passed)
			return target, nil, passed, nil
		}
		loaded, err := m.loadForCall(target)
		if err == nil {
			m.sayPassed(target.number, passed)
			return target, loaded, passed, nil
		}
		passed = append(passed, PassedOver{target.number, status.Convert(err).Message()})
		if first == nil {
			first = status.Errorf(codes.FailedPrecondition, "version %d of %s cannot be loaded, and nothing has changed: %s",
				target.number, m.Name, status.Convert(err).Message())
		}
	}
	return candidate{}, nil, nil, first
}

func (m *model) sayPassed(taken int64, passed []PassedOver) {
	var numbers []int64
	for _, each := range passed {
		numbers = append(numbers, each.Version)
	}
	if len(numbers) > 0 {
		m.log.Warn("a call takes a version, as others cannot be loaded", "version", taken, "passed_over", numbers)
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
		return nil, err
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
	held := holding(m.held)
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
