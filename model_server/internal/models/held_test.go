package models

import (
	"testing"

	"afo/model_server/internal/config"
	"afo/model_server/internal/rollout"
)

func TestWhatIsHeldIsKnownBeforeTheFirstLook(t *testing.T) {
	store, err := rollout.OpenStore("")
	if err != nil {
		t.Fatal(err)
	}
	f := newFakes(t, config.Versions{Latest: 1}, func(o *Options) {
		o.Store = store
		if err := store.Keep("ctr", rollout.Held{BasePath: o.Models[0].BasePath, Pinned: 2}); err != nil {
			t.Fatal(err)
		}
	})
	if held := f.registry.Held("ctr"); held.Pinned != 2 {
		t.Error(held)
	}
	if held := f.registry.Held("other"); held.Pinned != 0 {
		t.Error(held)
	}
	f.write(1, "v1")
	f.write(2, "v2")
	f.look()
	f.must(f.rollback("ctr", 1, "ann"))
	if held := f.registry.Held("ctr"); held.Pinned != 1 || !held.Rejects(2) {
		t.Error(held)
	}
}

func TestALogSaysServingOfWhatServesByItself(t *testing.T) {
	f := newFakes(t, config.Versions{Latest: 1}, withCanary)
	f.write(1, "v1")
	f.look()
	f.write(2, "v2")
	f.look()
	if f.said(`"serving a version" model=ctr version=1`) != 1 || f.said(`"loaded a version" model=ctr version=2`) != 1 {
		t.Error(f.log.String())
	}
	f.write(3, "v3")
	f.must(f.promote("ctr", 3, false, "ann")) // which says so itself
	if f.said(`"loaded a version" model=ctr version=3`) != 1 {
		t.Error(f.log.String())
	}
}

func TestOnlyWhatAnswersIsSaidToBeServed(t *testing.T) {
	f := newFakes(t, config.Versions{Latest: 2}, withCanary)
	f.write(1, "v1")
	f.write(2, "v2")
	f.look()
	if f.said(`"serving a version" model=ctr version=2`) != 1 || f.said(`"loaded a version" model=ctr version=1`) != 1 || f.said("serving a version") != 1 {
		t.Error(f.log.String())
	}
	// The one that answers goes on from memory, and an older one is loaded beside it.
	f = newFakes(t, config.Versions{Latest: 2}, withCanary)
	f.write(2, "v2")
	f.look()
	f.remove(2)
	f.write(1, "v1")
	f.look()
	f.answers("v2", 2)
	f.state(1, StateAvailable, "")
	if f.said("is not taken up") != 0 || f.said(`"loaded a version" model=ctr version=1`) != 1 {
		t.Error(f.log.String())
	}
}
