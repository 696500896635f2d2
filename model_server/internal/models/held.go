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
