package models

import (
	"context"
	"slices"
	"time"
)

// load loads a version and, where that works, makes it answer. One version is loaded at a time, of all models, unless
// one takes too long: a load takes memory and processors from those that answer.
func (m *model) load(ctx context.Context, of candidate) {
	m.set(of.number, StateStart, nil)
	leave, ok := m.takeTurn(ctx)
	if !ok {
		return
	}
	defer leave()
	m.set(of.number, StateLoading, nil)
	stop := m.remind("loading", "version", of.number, "path", of.path)
	began := time.Now()
	before := attempt{of.identity, contentsOf(of.path)}
	var loaded *version
	var warmed int
	var err error
	m.shared.priority.run(func() { loaded, warmed, err = m.loaded(ctx, of) })
	took := time.Since(began)
	stop()
	if ctx.Err() != nil {
		if loaded != nil {
			loaded.model.Close()
		}
		return
	}
	m.shared.events.Loaded(m.Name, of.number, took, err)
	if err != nil {
		failed := m.fail(of.number, before)
		m.log.Error("a version cannot be loaded; "+m.remains(), "version", of.number, "path", of.path,
			"again_in_seconds", Pause(failed.count).Seconds(), "error", err)
		m.set(of.number, StateEnd, err)
		return
	}
	m.deciding.Lock()
	m.serve(loaded)
	m.deciding.Unlock()
	m.sayServing(loaded, warmed, took)
}

func (m *model) fail(number int64, before attempt) *failure {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	m.failures[number] = m.failures[number].again(m.shared.now(), before)
	return m.failures[number]
}

func (m *model) sayServing(loaded *version, warmed int, took time.Duration) {
	of := loaded.candidate
	m.log.Info(m.whatOf(loaded), "version", of.number, "step", loaded.Step, "seconds", took.Seconds(),
		"warm_up_requests", warmed, "path", of.path)
	if loaded.stepUnknown != nil {
		m.log.Warn("the step of a version is not known; it is 0 here", "version", of.number, "path", of.path, "error", loaded.stepUnknown)
	}
}

// loaded is a version that is ready to answer.
func (m *model) loaded(ctx context.Context, of candidate) (*version, int, error) {
	if err := checkFiles(of.path); err != nil {
		return nil, 0, err
	}
	servable, err := m.shared.load(of.path)
	if err != nil {
		return nil, 0, err
	}
	loaded, err := newVersion(of, servable, m.shared.now())
	warmed := 0
	if err == nil {
		warmed, err = warmUp(ctx, of.path, servable.Process)
	}
	if err != nil {
		servable.Close()
		return nil, warmed, err
	}
	return loaded, warmed, nil
}

// serve makes a version answer, in the place of one of the same number, or begins its canary. Under deciding.
func (m *model) serve(loaded *version) {
	now := m.served.Load()
	before := now.find(loaded.number)
	served := []*version{loaded}
	for _, each := range now.versions {
		if each != before {
			served = append(served, each)
		}
	}
	delete(m.failures, loaded.number)
	if !m.isOnDisk(loaded.number) {
		m.onDisk = append(m.onDisk, loaded.number)
	}
	if m.trial != nil && m.trial.version == loaded.number {
		m.endTrial("replaced") // by another SavedModel, which begins anew
	}
	m.publish(served)
	m.settle()
	m.clear(loaded.number)
	m.shared.events.Available(m.Name, loaded.number, loaded.Step, loaded.exported(), loaded.trained)
	if before != nil {
		m.drain(before)
	}
}

// retire takes those away that are not wanted, once one that is wanted answers.
func (m *model) retire(of picked) {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	if of.calls != m.calls {
		return // a call has changed what is wanted
	}
	numbers := append(numbersOf(m.Versions, of.candidates), m.needed()...)
	var kept, retired []*version
	for _, each := range m.served.Load().versions {
		if slices.Contains(numbers, each.number) {
			kept = append(kept, each)
		} else {
			retired = append(retired, each)
		}
	}
	if len(kept) == 0 || len(retired) == 0 || m.defaultOf((&serving{versions: kept}).numbers()) == 0 {
		return
	}
	m.publish(kept)
	m.settle()
	for _, each := range retired {
		m.drain(each)
	}
}

// drainAll takes all away, as the server ends.
func (m *model) drainAll() {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	versions := m.served.Load().versions
	m.trial = nil
	m.publish(nil)
	for _, each := range versions {
		m.drain(each)
	}
}

// drain closes a version that no list has any more, once its requests have ended.
func (m *model) drain(of *version) {
	replaced := m.find(of.number) != nil
	if !replaced {
		m.set(of.number, StateUnloading, nil)
	}
	of.release()
	m.shared.draining.Go(func() {
		<-of.drained
		m.shared.priority.run(of.model.Close)
		m.log.Info("unloaded a version", "version", of.number, "step", of.Step)
		if !replaced {
			m.unloaded(of.number)
		}
	})
}

// unloaded notes the end of a version, unless the version has been wanted again meanwhile.
func (m *model) unloaded(number int64) {
	m.mutex.Lock()
	ends := m.others[number].State == StateUnloading
	if ends {
		m.others[number] = VersionStatus{Version: number, State: StateEnd}
		m.end(number)
	}
	m.mutex.Unlock()
	if ends {
		m.shared.events.State(m.Name, number, StateEnd)
		m.shared.changed()
	}
}
