package models

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"afo/model_server/internal/config"
	"afo/model_server/internal/rollout"

	"google.golang.org/grpc/metadata"
)

const compared = 20

// withCanary has a gate, and half of the users for a canary.
func withCanary(options *Options) {
	rate, ratio, index, least := 0.1, 3.0, 0.5, int64(compared)
	options.Models[0].Canary = &config.Canary{TrafficPercent: 50, DurationSeconds: 60, HashHeader: "x-user-id",
		Gate: config.Gate{MaxErrorRate: &rate, MaxLatencyRatio: &ratio, MaxScorePSI: &index, MinRequests: &least}}
}

// users ask, each under a name of its own, and get the version that each had before.
func (f *fakes) users(count int, of map[string]int64) {
	f.t.Helper()
	for user := range count {
		name := fmt.Sprint(user)
		_, version, _ := f.registry.Predict(WithHeaders(context.Background(), http.Header{"X-User-Id": {name}}), Spec{Name: "ctr"}, []byte("x"))
		if before := of[name]; before != 0 && before != version {
			f.t.Errorf("user %s has version %d after %d", name, version, before)
		}
		of[name] = version
	}
}

// trying is a canary of version 2 beside 1.
func trying(t *testing.T, text string) *fakes {
	f := newFakes(t, latest, withCanary)
	f.write(1, "scores 0.25")
	f.look()
	f.write(2, text)
	f.look()
	state := f.registry.State()[0]
	if state.Canary == nil || state.Canary.Version != 2 || *state.ServingVersion != 1 {
		t.Fatalf("%+v", state)
	}
	return f
}

func TestACanaryTakesItsShareAndThenAll(t *testing.T) {
	f := trying(t, "scores 0.25")
	chosen := map[string]int64{}
	for range 4 {
		f.users(200, chosen)
	}
	counts := map[int64]int{}
	for _, version := range chosen {
		counts[version]++
	}
	if counts[1] < 70 || counts[2] < 70 {
		t.Error(counts)
	}
	// By gRPC's metadata a user is the same one.
	for user, version := range chosen {
		ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("x-user-id", user))
		if _, got, err := f.registry.Predict(ctx, Spec{Name: "ctr"}, []byte("x")); err != nil || got != version {
			t.Fatalf("user %s: %d, %d by gRPC, %v", user, version, got, err)
		}
	}
	f.model().judge()
	state := f.registry.State()[0].Canary
	if state == nil || state.Requests != int64(5*counts[2]) || state.ErrorRate != 0 || state.LatencyRatio == nil || state.ScorePSI == nil {
		t.Fatalf("%+v of %v", state, counts)
	}
	f.write(3, "scores 0.25")
	f.look()
	if got := f.registry.State()[0].Canary; got == nil || got.Version != 2 {
		t.Errorf("a newer version waits: %+v", got)
	}
	f.pass(time.Minute)
	f.model().judge()
	if got := f.registry.State()[0]; got.Canary != nil || *got.ServingVersion != 2 || len(got.Rejected) != 0 {
		t.Errorf("%+v", got)
	}
	f.look()
	if got := f.registry.State()[0].Canary; got == nil || got.Version != 3 {
		t.Errorf("it is the next one's turn: %+v", got)
	}
	if events := fmt.Sprint(f.events); events != "[canary begun canary passed canary begun]" {
		t.Error(events)
	}
}

func TestACanaryThatBreaksItsGateIsRejected(t *testing.T) {
	for text, says := range map[string]string{"fails": "error rate", "refuses": "error rate", "slow": "latency ratio", "scores 0.5": "score PSI"} {
		f := trying(t, text)
		f.model().judge()
		f.users(400, map[string]int64{})
		f.model().judge()
		state := f.registry.State()[0]
		if state.Canary != nil || *state.ServingVersion != 1 || len(state.Rejected) != 1 || state.Rejected[0].Version != 2 ||
			!strings.Contains(state.Rejected[0].Reason, says) {
			t.Errorf("%s: %+v", text, state)
			continue
		}
		f.look()
		f.look()
		if f.said("a canary is rejected: "+says) != 1 || f.loads.Load() != 2 {
			t.Errorf("%s: %d loads; %s", text, f.loads.Load(), f.log.String())
		}
		f.registry.shared.draining.Wait()
		f.state(2, StateEnd, "")
		f.write(3, "scores 0.25")
		f.look()
		if got := f.registry.State()[0].Canary; got == nil || got.Version != 3 {
			t.Errorf("%s: a newer one has its turn: %+v", text, got)
		}
	}
}

func TestACanaryWaitsForWhatItIsComparedWith(t *testing.T) {
	f := trying(t, "scores 0.25")
	f.pass(time.Hour)
	for range 3 {
		f.model().judge()
	}
	if f.registry.State()[0].Canary == nil || f.said("a canary waits though its duration is over: the canary has answered 0 requests") != 1 {
		t.Error(f.log.String())
	}
}

func TestRequestsThatNameAVersionAreNoneOfTheCanarys(t *testing.T) {
	f := trying(t, "fails")
	for range 10 * compared {
		if _, version, _ := f.ask(Spec{Name: "ctr", Version: 2}, "x"); version != 2 {
			t.Fatal(version)
		}
		if _, version, _ := f.ask(Spec{Name: "ctr", Label: "stable"}, "x"); version != 1 {
			t.Fatal(version)
		}
	}
	f.model().judge()
	if got := f.registry.State()[0].Canary; got == nil || got.Requests != 0 {
		t.Errorf("%+v", got)
	}
}

func TestCallsEndACanary(t *testing.T) {
	f := trying(t, "scores 0.25")
	f.must(f.rollback("ctr", 0, "ann"))
	if got := f.registry.State()[0]; got.Canary != nil || *got.ServingVersion != 1 || !got.Pinned || got.Rejected[0].Version != 2 {
		t.Errorf("%+v", got)
	}
	f.write(3, "scores 0.25")
	f.look()
	if got := f.registry.State()[0]; got.Canary != nil || *got.ServingVersion != 1 {
		t.Errorf("%+v", got)
	}
	f.must(f.promote("ctr", 0, true, "ann"))
	if got := f.registry.State()[0]; got.Canary != nil || *got.ServingVersion != 3 || got.Pinned {
		t.Errorf("%+v", got)
	}
	f = trying(t, "scores 0.25")
	f.write(3, "scores 0.25")
	f.must(f.promote("ctr", 0, false, "ann"))
	if got := f.registry.State()[0]; got.Canary != nil || *got.ServingVersion != 2 || got.Pinned {
		t.Errorf("the canary is meant: %+v", got)
	}
	f.look()
	if got := f.registry.State()[0].Canary; got == nil || got.Version != 3 {
		t.Errorf("%+v", got)
	}
	f.remove(3)
	f.look()
	if got := f.registry.State()[0]; got.Canary != nil || *got.ServingVersion != 2 || len(got.Rejected) != 0 {
		t.Errorf("its directory is gone: %+v", got)
	}
	f.registry.shared.draining.Wait()
	f.state(3, StateEnd, "")
}

func TestAfterARestartACanaryBeginsAgain(t *testing.T) {
	store, err := rollout.OpenStore("")
	f := newFakes(t, latest, withCanary, func(options *Options) { options.Store = store })
	f.must(err)
	f.write(1, "v1")
	f.look()
	f.write(2, "v2")
	f.write(3, "v3")
	again := newFakes(t, latest, withCanary, func(options *Options) { options.Store, options.Models[0].BasePath = store, f.base })
	again.look()
	if got := again.registry.State()[0]; got.Canary == nil || got.Canary.Version != 3 || *got.ServingVersion != 1 || again.loads.Load() != 2 {
		t.Errorf("%+v after %d loads", got, again.loads.Load())
	}
	// Where the stable one is gone, what is left is taken as at a first start.
	f.remove(1)
	again = newFakes(t, latest, withCanary, func(options *Options) { options.Store, options.Models[0].BasePath = store, f.base })
	again.look()
	if got := again.registry.State()[0]; got.Canary != nil || *got.ServingVersion != 3 {
		t.Errorf("%+v", got)
	}
}

func TestAModelInOneDirectoryHasACanaryToo(t *testing.T) {
	f := newFakes(t, latest, withCanary, func(options *Options) { options.Models[0].BasePath += "/5" })
	put := func(step int, text string) {
		beside := f.base + "/tmp"
		f.must(os.MkdirAll(beside+"/assets.extra", 0o700))
		f.must(os.WriteFile(beside+"/assets.extra/afo.json", fmt.Appendf(nil, `{"step": %d}`, step), 0o600))
		f.must(os.WriteFile(beside+"/"+savedModel, []byte(text), 0o600))
		f.must(os.RemoveAll(f.base + "/5"))
		f.must(os.Rename(beside, f.base+"/5"))
		f.look()
	}
	put(10, "scores 0.25")
	put(20, "fails")
	f.users(100, map[string]int64{})
	f.model().judge()
	f.look()
	f.registry.shared.draining.Wait()
	if got := f.registry.State()[0]; *got.ServingVersion != 10 || len(got.Rejected) != 1 {
		t.Errorf("%+v", got)
	}
	f.state(20, StateEnd, "")
	put(30, "scores 0.25")
	if got := f.registry.State()[0].Canary; got == nil || got.Version != 30 {
		t.Errorf("%+v", got)
	}
}

func TestAfterARejectionNoOlderVersionHasATry(t *testing.T) {
	f := newFakes(t, latest, withCanary)
	f.write(1, "scores 0.25")
	f.look()
	for number := int64(2); number < 30; number++ {
		f.write(number, "scores 0.25")
	}
	f.write(30, "fails")
	for range 3 {
		f.look()
		f.users(200, map[string]int64{})
		f.model().judge()
	}
	f.look()
	if got := f.registry.State()[0]; got.Canary != nil || *got.ServingVersion != 1 || len(got.Rejected) != 1 || f.loads.Load() != 2 {
		t.Errorf("%+v after %d loads", got, f.loads.Load())
	}
	for number := int64(31); number < 60; number++ {
		f.model().keep(f.model().held.Rejecting(number, f.now(), ""))
		f.write(number, "fails")
	}
	f.look()
	if got := f.registry.State()[0]; got.Canary != nil || f.loads.Load() != 2 {
		t.Errorf("rejected ones come back: %+v", got)
	}
	f.write(60, "scores 0.25")
	f.look()
	if got := f.registry.State()[0].Canary; got == nil || got.Version != 60 {
		t.Errorf("a newer one has its turn: %+v", got)
	}
}

func TestASavedModelInThePlaceOfTheOneThatAnswersWaitsForAPromote(t *testing.T) {
	f := newFakes(t, latest, withCanary)
	f.write(3, "v3")
	f.look()
	f.write(3, "other")
	f.look()
	f.look()
	f.answers("v3", 3)
	f.state(3, StateAvailable, "`afo serving promote ctr:3` takes it up")
	if f.loads.Load() != 1 || f.said("a SavedModel is not taken up: it is another one than the version 3 that answers") != 1 {
		t.Errorf("%d loads; %s", f.loads.Load(), f.log.String())
	}
	f.must(f.promote("ctr", 0, false, "ann"))
	f.answers("other", 3)
	f.look()
	f.state(3, StateAvailable, "")
	if all, _ := f.registry.Status("ctr", 3); all[0].Message != "" {
		t.Error(all)
	}
}

func TestARepairedVersionThatWasRejectedWaitsForAPromote(t *testing.T) {
	f := trying(t, "fails")
	f.users(400, map[string]int64{})
	f.model().judge()
	f.look()
	f.registry.shared.draining.Wait()
	f.write(2, "repaired")
	f.look()
	f.look()
	f.state(2, StateEnd, "`afo serving promote ctr:2` takes it up")
	if f.loads.Load() != 2 || f.said("version 2 was rejected, and another SavedModel is under its number") != 1 {
		t.Errorf("%d loads; %s", f.loads.Load(), f.log.String())
	}
	f.must(f.promote("ctr", 2, false, "ann"))
	f.answers("repaired", 2)
}

func TestAnOlderExportIsNotTakenUpBesideACanarysStableVersion(t *testing.T) {
	f := newFakes(t, latest, withCanary)
	f.write(20, "v20")
	f.look()
	f.remove(20)
	f.write(10, "v10")
	f.look()
	f.answers("v20", 20)
	f.state(10, StateEnd, "version 10 is older than 20")
	f.must(f.promote("ctr", 10, false, "ann"))
	f.answers("v10", 10)
}

func TestAVersionWhoseDirectoryIsGoneBecomesNoCanary(t *testing.T) {
	for _, policy := range []config.Versions{{Latest: 2}, {Specific: []int64{1, 2, 3}}} {
		f := newFakes(t, policy, withCanary)
		f.write(1, "v1")
		f.write(2, "v2")
		f.look()
		f.write(3, "v3")
		f.look()
		if got := f.registry.State()[0].Canary; got == nil || got.Version != 3 {
			t.Fatalf("%+v", got)
		}
		f.remove(3)
		f.look() // loads version 1 again in the free place
		f.must(f.promote("ctr", 0, false, "ann"))
		f.look()
		if got := f.registry.State()[0]; got.Canary != nil || *got.ServingVersion != 2 || f.said("a canary begins") != 1 {
			t.Errorf("%+v: %+v; %s", policy, got, f.log.String())
		}
		if events := fmt.Sprint(f.events); events != "[canary begun canary removed]" {
			t.Errorf("%+v: %s", policy, events)
		}
	}
}
