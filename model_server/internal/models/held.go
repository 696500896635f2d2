package models

import (
	"slices"

	"afo/model_server/internal/rollout"
)

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

// whatOf says whether a version that was loaded serves by itself: has requests that name no version, and not as a canary.
func (m *model) whatOf(loaded *version) string {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	now := m.served.Load()
	hasShare := now.trial == nil && slices.ContainsFunc(now.route.Shares, func(each rollout.Share) bool { return each.Version == loaded.number })
	if now.find(loaded.number) == loaded && (now.route.Default == loaded.number || hasShare) {
		return "serving a version"
	}
	return "loaded a version"
}
