package rollout

import (
	"slices"
	"time"
)

// mostRejected is how many rejections of a model are kept with their reasons, and mostAnswered how many versions that answered.
const (
	mostRejected = 16
	mostAnswered = 8
)

// Held is what is kept of a model over a restart.
type Held struct {
	// BasePath is where its versions are: with another one the numbers would be other versions.
	BasePath string `json:"base_path"`
	// Pinned is the version that an operator holds; 0: none, the newest is taken.
	Pinned int64 `json:"pinned"`
	// Stable is the version that answered all but a canary's share; 0: not noted, as the model has no canaries.
	Stable   int64       `json:"stable"`
	Rejected []Rejection `json:"rejected"`
	// Floor is the newest version that was ever rejected, or left for an older one: none up to it is taken up by itself.
	Floor int64 `json:"floor"`
	// Answered are versions that answered requests that name none, each once, the present one last.
	Answered []int64 `json:"answered"`
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
	return h.Leaving(version)
}

// Leaving is the same with a version left for an older one.
func (h Held) Leaving(version int64) Held {
	h.Floor = max(h.Floor, version)
	return h
}

// Answering is the same with a version that answers now.
func (h Held) Answering(version int64) Held {
	h.Answered = slices.DeleteFunc(slices.Clone(h.Answered), func(each int64) bool { return each == version })
	h.Answered = append(h.Answered, version)
	h.Answered = h.Answered[max(0, len(h.Answered)-mostAnswered):]
	return h
}

// Answers is the version that answered last; 0: none is known.
func (h Held) Answers() int64 {
	if len(h.Answered) == 0 {
		return 0
	}
	return h.Answered[len(h.Answered)-1]
}

// Accepting is the same with a version that is not rejected.
func (h Held) Accepting(version int64) Held {
	h.Rejected = slices.DeleteFunc(slices.Clone(h.Rejected), func(each Rejection) bool { return each.Version == version })
	return h
}

// Retrying is the same with a version that may be taken up by itself, though it was rejected, or is not newer than one that
// was.
func (h Held) Retrying(version int64) Held {
	h = h.Accepting(version)
	h.Floor = min(h.Floor, version-1)
	return h
}

// Proven says whether a version answered all requests not long ago, and was not rejected since.
func (h Held) Proven(version int64) bool {
	return slices.Contains(h.Answered, version) && !h.Rejects(version)
}

// TakesUp says whether a version may be taken up by itself: one that is newer than all that were rejected, or no newer than
// the one that answers, as it may have to stand in for that one.
func (h Held) TakesUp(version int64) bool {
	switch {
	case h.Rejects(version):
		return false
	case h.Pinned != 0:
		return version <= h.Pinned
	}
	return version > h.Floor || version <= h.Answers() || h.Answers() == 0
}

// Default is the version that answers requests that name none, of those that are loaded (the newest first), beside a
// canary (0: none); 0: no version may answer.
func (h Held) Default(loaded []int64, canary int64) int64 {
	if h.Pinned == 0 && slices.Contains(loaded, h.Stable) && h.Stable != canary && !h.Rejects(h.Stable) {
		return h.Stable
	}
	for _, each := range loaded {
		if each != canary && h.TakesUp(each) {
			return each
		}
	}
	return 0
}
