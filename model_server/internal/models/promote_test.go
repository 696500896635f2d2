package models

import (
	"fmt"
	"testing"
	"time"

	"afo/model_server/internal/rollout"

	"google.golang.org/grpc/codes"
)

func TestAPromoteThatEndsAPinLeadsTheNewestVersionThroughItsCanary(t *testing.T) {
	f := trying(t, "scores 0.25")
	f.must(f.rollback("ctr", 0, "ann"))
	f.write(3, "scores 0.25")
	f.look()
	f.must(f.promote("ctr", 0, false, "ann"))
	if got := f.registry.State()[0]; got.Canary == nil || got.Canary.Version != 3 || *got.ServingVersion != 1 || got.Pinned || len(got.Rejected) != 1 {
		t.Fatalf("%+v", got)
	}
	if f.said("a version is promoted by a call, and begins its canary") != 1 {
		t.Error(f.log.String())
	}
	f.look()
	f.users(400, map[string]int64{})
	f.pass(time.Minute)
	f.model().judge()
	f.look()
	if got := f.registry.State()[0]; got.Canary != nil || *got.ServingVersion != 3 || len(got.Rejected) != 1 {
		t.Errorf("%+v", got)
	}
	// A call again, during a canary, gives it all requests.
	f.write(4, "scores 0.25")
	f.look()
	f.must(f.promote("ctr", 0, false, "ann"))
	if got := f.registry.State()[0]; got.Canary != nil || *got.ServingVersion != 4 {
		t.Errorf("%+v", got)
	}
}

func TestAVersionThatWasRejectedIsTriedAgainByAPromoteAndRejectedAgain(t *testing.T) {
	store, err := rollout.OpenStore("")
	f := newFakes(t, latest, withCanary, func(options *Options) { options.Store = store })
	f.must(err)
	f.write(1, "scores 0.25")
	f.look()
	f.write(2, "fails")
	f.look()
	for range 2 {
		f.users(400, map[string]int64{})
		f.model().judge()
		f.look()
		if got := f.registry.State()[0]; got.Canary != nil || *got.ServingVersion != 1 || len(got.Rejected) != 1 {
			t.Fatalf("%+v", got)
		}
		f.must(f.promote("ctr", 0, false, "ann"))
		if got := f.registry.State()[0]; got.Canary == nil || got.Canary.Version != 2 || *got.ServingVersion != 1 || len(got.Rejected) != 0 {
			t.Fatalf("%+v", got)
		}
	}
	again := newFakes(t, latest, withCanary, func(options *Options) { options.Store, options.Models[0].BasePath = store, f.base })
	again.look()
	if got := again.registry.State()[0]; got.Canary == nil || got.Canary.Version != 2 || *got.ServingVersion != 1 {
		t.Errorf("a restart goes on with what was promoted: %+v", got)
	}
}

func TestAVersionThatHasAnsweredNeedsNoCanaryUnlessItWasRejected(t *testing.T) {
	f := trying(t, "scores 0.25")
	f.must(f.promote("ctr", 0, false, "ann"))
	f.must(f.promote("ctr", 1, false, "ann"))
	if got := f.registry.State()[0]; *got.ServingVersion != 1 || !got.Pinned || len(got.Rejected) != 0 {
		t.Fatalf("%+v", got)
	}
	f.must(f.promote("ctr", 0, false, "ann"))
	if got := f.registry.State()[0]; got.Canary != nil || *got.ServingVersion != 2 || got.Pinned {
		t.Fatalf("%+v", got)
	}
	f.must(f.rollback("ctr", 1, "ann"))
	f.must(f.promote("ctr", 0, false, "ann"))
	if got := f.registry.State()[0]; got.Canary == nil || got.Canary.Version != 2 || *got.ServingVersion != 1 {
		t.Errorf("%+v", got)
	}
	f.must(f.rollback("ctr", 0, "ann"))
	f.must(f.promote("ctr", 0, true, "ann"))
	if got := f.registry.State()[0]; got.Canary != nil || *got.ServingVersion != 2 || got.Pinned {
		t.Errorf("%+v", got)
	}
	fails(t, f.promote("ctr", 2, true, "ann"), codes.InvalidArgument, "version is 2 and full is true")
}

func TestAPromotePassesOverDamagedVersions(t *testing.T) {
	f := looked(t, latest, []int64{1, 2})
	f.must(f.rollback("ctr", 1, "ann"))
	f.write(3, "v3")
	f.write(4, "broken")
	f.must(f.promote("ctr", 0, false, "ann"))
	f.stands(3, false, 2)
	f.state(4, StateEnd, "it is broken")
	f.must(f.promote("ctr", 3, false, "ann"))
	f.stands(3, true, 2)
	f.must(f.promote("ctr", 0, false, "ann"))
	f.stands(3, false, 2)
	f.look()
	f.stands(3, false, 2)
}

func TestAPromoteGoesOnToARejectedVersionWhereTheNewestIsDamaged(t *testing.T) {
	f := newFakes(t, latest, withCanary)
	f.write(2, "v2")
	f.look()
	f.write(3, "v3")
	f.look()
	f.must(f.rollback("ctr", 0, "ann"))
	f.stands(2, true, 3)
	f.write(4, "broken")
	passed, err := f.registry.Promote("ctr", 0, false, "ann")
	f.must(err)
	if fmt.Sprint(passed) != "[{4 it is broken}]" {
		t.Error(passed)
	}
	if got := f.registry.State()[0]; got.Canary == nil || got.Canary.Version != 3 || *got.ServingVersion != 2 || got.Pinned {
		t.Errorf("%+v", got)
	}
	// Of those that are older than the one that answers, a rejected one is not taken.
	f = looked(t, latest, []int64{1, 2, 3})
	f.must(f.rollback("ctr", 0, "ann"))
	f.must(f.rollback("ctr", 0, "ann"))
	f.must(f.promote("ctr", 3, false, "ann"))
	f.write(3, "broken")
	f.must(f.promote("ctr", 0, false, "ann"))
	f.stands(1, false, 2)
}
