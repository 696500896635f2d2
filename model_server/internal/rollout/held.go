package rollout

import (
	"slices"
	"time"
)

// mostRejected is how many rejections of a model are kept.
const mostRejected = 16

// Held is what is kept of a model over a restart.
type Held struct {
	// BasePath is where its versions are: with another one the numbers would be other versions.
	BasePath string `json:"base_path"`
	// Pinned is the version that an operator holds; 0: none, the newest is taken.
	Pinned int64 `json:"pinned"`
	// Stable is the version that answered all but a canary's share; 0: not noted, as the model has no canaries.
	Stable   int64       `json:"stable"`
	Rejected []Rejection `json:"rejected"`
}

// Rejection is a version that is not taken up by itself.
type Rejection struct {
	Version int64  `json:"version"`
	At      int64  `json:"at"` // seconds since 1970
	Reason  string `json:"reason"`
}

// Rejects says whether a version was rejected.
func (h Held) Rejects(version int64) bool {
	return slices.ContainsFunc(h.Rejected, func(each Rejection) bool { return each.Version == version })
}

// Rejecting is the same with one version more rejected, of which the last reason stays.
func (h Held) Rejecting(version int64, now time.Time, reason string) Held {
	h = h.Accepting(version)
	h.Rejected = append(h.Rejected, Rejection{version, now.Unix(), reason})
	h.Rejected = h.Rejected[max(0, len(h.Rejected)-mostRejected):]
	return h
}

// Accepting is the same with a version that is not rejected.
func (h Held) Accepting(version int64) Held {
	h.Rejected = slices.DeleteFunc(slices.Clone(h.Rejected), func(each Rejection) bool { return each.Version == version })
	return h
}

// Default is the version that answers requests that name none, of those that are loaded (the newest first), beside a
// canary (0: none); 0: no version may answer.
func (h Held) Default(loaded []int64, canary int64) int64 {
	allowed := func(version int64) bool { return version != canary && !h.Rejects(version) }
	if h.Pinned == 0 && slices.Contains(loaded, h.Stable) && allowed(h.Stable) {
		return h.Stable
	}
	for _, each := range loaded {
		if (h.Pinned == 0 || each <= h.Pinned) && allowed(each) {
			return each
		}
	}
	return 0
}
