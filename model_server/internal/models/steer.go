package models

import (
	"context"
	"fmt"
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

// Rollback sends requests that name no version to an older one and pins it; 0: the newest one that is older than the one
// that answers, or where a canary is under way, the one that answers beside it. By is who calls, for the log.
func (r *Registry) Rollback(name string, version int64, by string) error {
	return r.steer(name, version, func(m *model) error { return m.rollBack(version, by) })
}

// Promote sends them to a version and pins it; 0: to the canary under way, or else the newest version, and ends the pin.
func (r *Registry) Promote(name string, version int64, by string) error {
	return r.steer(name, version, func(m *model) error { return m.promote(version, by) })
}

// steer makes one call at a time of a model. It goes on where its caller has gone: a load cannot be interrupted.
func (r *Registry) steer(name string, version int64, do func(*model) error) error {
	m, err := r.find(name)
	if err != nil {
		return err
	}
	if version < 0 {
		return status.Errorf(codes.InvalidArgument, "version is %d; allowed: 1 or more, or none", version)
	}
	if !r.calls.begin() {
		return status.Error(codes.Unavailable, "the server is stopping")
	}
	defer r.calls.running.Done()
	if !m.calling.TryLock() {
		return status.Errorf(codes.Aborted, "another call changes the versions of %s; ask for the state, and call again if it is needed still", name)
	}
	defer m.calling.Unlock()
	return do(m)
}

func (m *model) rollBack(version int64, by string) error {
	answering, canary := m.standings()
	if answering == 0 {
		return status.Errorf(codes.FailedPrecondition, "no version of %s answers that could be rolled back", m.Name)
	}
	if version > answering {
		return status.Errorf(codes.InvalidArgument, "version %d of %s is newer than %d, which answers; promote takes a newer one", version, m.Name, answering)
	}
	find := m.older
	if version == 0 && canary != 0 || version == answering {
		find = func(answering, _ int64) (candidate, error) { return m.loadedNow(answering) }
	}
	target, err := find(answering, version)
	if err != nil {
		return err
	}
	var rejected []int64
	err = m.take(target, func(held rollout.Held) rollout.Held {
		now, canary := m.answeringNow()
		for _, from := range []int64{answering, now, canary} {
			if from > target.number && !slices.Contains(rejected, from) {
				rejected = append(rejected, from)
				held = held.Rejecting(from, m.shared.now(), fmt.Sprintf("rolled back to version %d by %s", target.number, by))
			}
		}
		held.Pinned = target.number
		return held
	}, "rolled back to", by)
	if err != nil {
		return err
	}
	for range rejected {
		m.shared.events.Rejected(m.Name, rollout.ByCall)
	}
	return nil
}

func (m *model) promote(version int64, by string) error {
	var target candidate
	_, canary := m.standings()
	if there := m.served.Load().find(canary); version == 0 && there != nil {
		target = there.candidate
	} else {
		var err error
		if target, err = m.newest(version); err != nil {
			return err
		}
	}
	return m.take(target, func(held rollout.Held) rollout.Held {
		if now, _ := m.answeringNow(); target.number < now {
			held = held.Leaving(now)
		}
		held.Pinned = version
		return held
	}, "promoted", by)
}

// standings are the version that answers and the canary, 0: none.
func (m *model) standings() (answering, canary int64) {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	return m.answeringNow()
}

// answeringNow is standings under deciding.
func (m *model) answeringNow() (answering, canary int64) {
	now := m.served.Load()
	if m.trial != nil {
		canary = m.trial.version
	}
	return now.route.Default, canary
}

// take makes a version answer all requests that name none. It is loaded first, where it is not; what fails changes nothing.
func (m *model) take(target candidate, holding func(rollout.Held) rollout.Held, done, by string) error {
	var loaded *version
	if there := m.served.Load().find(target.number); there == nil || there.identity != target.identity {
		var err error
		if loaded, err = m.loadForCall(target); err != nil {
			return err
		}
	}
	unused, err := m.apply(target.number, loaded, holding)
	if unused != nil {
		unused.model.Close()
		if m.served.Load().find(target.number) == nil {
			m.set(target.number, StateEnd, nil)
		}
	}
	if err != nil {
		return err
	}
	m.log.Warn("a version is "+done+" by a call, and answers", "version", target.number, "by", by, "pinned", m.pinned())
	return nil
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
func (m *model) apply(number int64, loaded *version, holding func(rollout.Held) rollout.Held) (unused *version, err error) {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	there := m.served.Load().find(number)
	if there == nil && loaded == nil {
		return nil, m.changed(number)
	}
	held := holding(m.held.Accepting(number))
	if m.Canary != nil {
		held.Stable = number
	}
	if held.Pinned != 0 || m.Traffic == nil || len(m.Traffic.Split) == 0 {
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

// older finds the version to roll back to on disk or among those that are loaded; 0: the newest that is older than the
// one that answers, was not rejected, and is one that the policy may pick.
func (m *model) older(answering, version int64) (candidate, error) {
	found, err := m.available()
	if err != nil {
		return candidate{}, err
	}
	for _, each := range found {
		if each.number == version || version == 0 && each.number < answering && m.mayAnswer(each.number) {
			if there := m.served.Load().find(each.number); there != nil {
				return there.candidate, nil // whatever took its place on disk
			}
			return each, nil
		}
	}
	if version != 0 {
		return candidate{}, m.notThere(version, found)
	}
	return candidate{}, status.Errorf(codes.FailedPrecondition, "%s has no version that is older than %d and was not rejected; %s",
		m.Name, answering, listed("available", textsOf(numbersIn(found))))
}

// newest finds the version to promote; 0: the newest that the policy may pick.
func (m *model) newest(version int64) (candidate, error) {
	found, err := m.available()
	if err != nil {
		return candidate{}, err
	}
	for _, each := range found {
		if each.number == version || version == 0 && m.mayPick(each.number) {
			return each, nil
		}
	}
	if version != 0 {
		return candidate{}, m.notThere(version, found)
	}
	return candidate{}, status.Errorf(codes.FailedPrecondition, "%s has no version to promote", m.Name)
}

func (m *model) notThere(version int64, found []candidate) error {
	return status.Errorf(codes.NotFound, "%s has no version %d; %s", m.Name, version, listed("available", textsOf(numbersIn(found))))
}

// available are the versions on disk and those that are loaded, the newest first.
func (m *model) available() ([]candidate, error) {
	stop := m.remind("reading base_path", "base_path", m.BasePath)
	defer stop()
	found, _, err := scan(m.Directory())
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
