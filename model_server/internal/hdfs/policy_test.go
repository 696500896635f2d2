package hdfs

import (
	"slices"
	"testing"

	"afo/model_server/internal/config"
	"afo/model_server/internal/rollout"
)

func TestAFreshCacheGetsWhatIsPinnedAndNothingNewer(t *testing.T) {
	for _, policy := range []config.Versions{latest, {Specific: []int64{2}}} {
		m := newCopied(t, policy)
		m.held.Pinned = 2
		for version := 1; version <= 4; version++ {
			m.put(version, 0)
		}
		m.pass()
		m.is("2")
		m.put(5, 0)
		m.pass()
		m.is("2")
		m.says("")
		if there := m.There(); !slices.Equal(slices.Sorted(slices.Values(there)), []int64{1, 2, 3, 4, 5}) {
			t.Error(there)
		}
	}
}

func TestAFreshCacheGetsTheStableVersionBeforeItsCanary(t *testing.T) {
	m := newCopied(t, latest)
	m.held.Stable = 2
	m.put(1, 0)
	m.put(2, 1)
	m.put(3, 0)
	m.put(4, 0)
	first := int64(0)
	m.remote.reading = func(string) {
		if here, err := m.versions(); err == nil && len(here) == 2 && first == 0 {
			for number := range here {
				first = max(first, number)
			}
		}
	}
	m.pass()
	m.is("1", "2", "4")
	if first != 2 {
		t.Errorf("version %d came before the stable one: the server would take it up without a canary", first)
	}
}

func TestWhatIsHeldStaysInTheCacheBeforeTheServerHasLookedAndWhenItIsGoneThere(t *testing.T) {
	m := newCopied(t, config.Versions{Latest: 3})
	for version := 1; version <= 4; version++ {
		m.put(version, 0)
		m.standings[int64(version)] = Used
		m.pass()
	}
	m.is("1", "2", "3", "4")
	m.standings = map[int64]Standing{}
	m.Policy = latest
	m.held = rollout.Held{Stable: 1, Rejected: []rollout.Rejection{{Version: 4}}}
	m.pass()
	m.pass()
	m.is("1", "2", "3", "4") // stable, to go back to, wanted, and to be promoted
	m.held = rollout.Held{Pinned: 1}
	m.remote.remove("1")
	m.remote.remove("2")
	m.pass()
	m.pass()
	m.is("1", "3", "4")
}

func TestARejectedVersionIsNotCopiedUnlessThereIsNoOther(t *testing.T) {
	m := newCopied(t, latest)
	m.held.Rejected = []rollout.Rejection{{Version: 3}}
	m.put(2, 0)
	m.put(3, 0)
	m.pass()
	m.is("2")
	m = newCopied(t, latest)
	m.held = rollout.Held{Pinned: 1, Rejected: []rollout.Rejection{{Version: 2}}}
	m.put(2, 0)
	m.put(3, 0)
	m.pass()
	m.is("3") // to be promoted, as the pinned one is gone
	if picked := m.picked(map[int64]remote{1: {}, 2: {}, 3: {}}, m.held); !slices.Equal(picked, []int64{1}) {
		t.Error(picked)
	}
}
