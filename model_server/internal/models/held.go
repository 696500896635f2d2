package models

import "afo/model_server/internal/rollout"

// Held is what is kept of a model over restarts, known from its making on: which version is pinned or stable, and which
// are not taken up. Of a model that is not there it is nothing.
func (r *Registry) Held(name string) rollout.Held {
	m, ok := r.models[name]
	if !ok {
		return rollout.Held{}
	}
	m.deciding.Lock()
	defer m.deciding.Unlock()
	return m.held
}

// whatOf says whether a version that was loaded serves by itself: a canary is on trial, and one that is newer than what a
// call has pinned meanwhile, or that a call is loading, waits.
func (m *model) whatOf(loaded *version) string {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	now := m.served.Load()
	waits := m.Versions.Latest > 0 && m.held.Pinned != 0 && loaded.number > m.held.Pinned
	if waits || now.find(loaded.number) != loaded || now.trial != nil && now.trial.version == loaded.number {
		return "loaded a version"
	}
	return "serving a version"
}
