package models

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"afo/model_server/internal/config"
	"afo/model_server/internal/rollout"

	"google.golang.org/grpc/codes"
)

// looked is a model with versions that answer with their numbers.
func looked(t *testing.T, policy config.Versions, numbers []int64, change ...func(*Options)) *fakes {
	f := newFakes(t, policy, change...)
	for _, number := range numbers {
		f.write(number, fmt.Sprint("v", number))
	}
	f.look()
	return f
}

// stands checks what the model answers with, and its state.
func (f *fakes) stands(version int64, pinned bool, rejected ...int64) {
	f.t.Helper()
	f.answers(fmt.Sprint("v", version), version)
	state := f.registry.State()[0]
	var found []int64
	for _, each := range state.Rejected {
		found = append(found, each.Version)
	}
	if state.ServingVersion == nil || *state.ServingVersion != version || state.Pinned != pinned || !slices.Equal(found, rejected) {
		f.t.Errorf("%+v; expected version %d, pinned: %v, rejected %v", state, version, pinned, rejected)
	}
}

func TestARollbackLoadsTheVersionBeforeAndPinsIt(t *testing.T) {
	f := looked(t, latest, []int64{1, 2, 3})
	f.must(f.rollback("ctr", 0, "ann"))
	f.stands(2, true, 3)
	if reason := f.registry.State()[0].Rejected[0].Reason; reason != "rolled back to version 2 by a call" {
		t.Error(reason)
	}
	f.write(4, "v4")
	f.look()
	f.stands(2, true, 3)
	f.until(func() bool { return f.closes.Load() == 1 })
	f.registry.shared.draining.Wait()
	f.state(3, StateEnd, "")
	f.must(f.rollback("ctr", 1, "ann"))
	f.stands(1, true, 3, 2)
	f.must(f.promote("ctr", 2, false, "ann"))
	f.stands(2, true, 3)
	f.must(f.promote("ctr", 0, false, "ann"))
	f.stands(4, false, 3)
	f.write(5, "v5")
	f.look()
	f.stands(5, false, 3)
	f.must(f.rollback("ctr", 0, "ann"))
	f.stands(4, true, 3, 5)
	f.must(f.rollback("ctr", 0, "ann"))
	f.stands(2, true, 3, 5, 4) // 3 was rejected
}

func TestARollbackToAVersionThatIsLoadedLoadsNothing(t *testing.T) {
	f := looked(t, config.Versions{Latest: 2}, []int64{1, 2, 3})
	loads := f.loads.Load()
	f.must(f.rollback("ctr", 0, "ann"))
	f.stands(2, true, 3)
	if f.loads.Load() != loads {
		t.Errorf("%d loads after %d", f.loads.Load(), loads)
	}
	f.look()
	f.stands(2, true, 3)
}

func TestACallThatFailsChangesNothing(t *testing.T) {
	f := looked(t, latest, []int64{3})
	f.write(2, "broken")
	f.write(1, "broken too")
	for _, each := range []struct {
		err  error
		code codes.Code
		says string
	}{
		{f.rollback("ctr", 0, ""), codes.FailedPrecondition, "version 2 of ctr cannot be loaded, and nothing has changed: it is broken"},
		{f.rollback("ctr", 9, ""), codes.InvalidArgument, "newer than 3, which answers"},
		{f.promote("ctr", 9, false, ""), codes.NotFound, "ctr has no version 9; available: 3, 2, 1"},
		{f.promote("ctr", -1, false, ""), codes.InvalidArgument, "allowed: 1 or more"},
		{f.rollback("cvr", 0, ""), codes.NotFound, "no model"},
		{looked(t, latest, nil).rollback("ctr", 0, ""), codes.FailedPrecondition, "no version of ctr answers"},
		{looked(t, latest, []int64{1}).rollback("ctr", 0, ""), codes.FailedPrecondition, "no version that is older than 1"},
	} {
		fails(t, each.err, each.code, each.says)
	}
	f.stands(3, false)
	f.look()
	f.stands(3, false)
}

func TestARollbackWaitsForNoOtherLoad(t *testing.T) {
	f := looked(t, latest, []int64{1, 2})
	f.write(3, "hangs")
	looks := make(chan struct{})
	go func() {
		f.look()
		close(looks)
	}()
	<-f.loading
	f.must(f.rollback("ctr", 0, "ann"))
	f.stands(1, true, 2)
	close(f.goOn)
	<-looks
	f.stands(1, true, 2)
	f.look()
	f.stands(1, true, 2)
	if f.wrong.Load() {
		t.Error("a version was closed while it was used")
	}
}

func TestOneCallOfAModelLoadsAtATime(t *testing.T) {
	f := looked(t, latest, []int64{3})
	f.write(1, "v1")
	f.write(2, "hangs")
	done := make(chan error)
	go func() { done <- f.rollback("ctr", 2, "ann") }()
	<-f.loading
	f.answers("v3", 3)
	fails(t, f.rollback("ctr", 1, "bob"), codes.Aborted,
		"another call changes the versions of ctr: a rollback to version 2 by ann since 1970-01-01T00:16:40Z")
	close(f.goOn)
	f.must(<-done)
	f.answers("hangs", 2)
	if f.said("a call failed, and has changed nothing") != 1 || f.said("by=bob") != 1 {
		t.Error(f.log.String())
	}
}

func TestACallForALoadedVersionWaitsForNoneThatLoads(t *testing.T) {
	f := looked(t, config.Versions{Latest: 2}, []int64{2, 3})
	f.write(1, "hangs")
	done := make(chan error)
	go func() { done <- f.rollback("ctr", 1, "ann") }()
	<-f.loading
	f.must(f.rollback("ctr", 2, "bob"))
	f.stands(2, true, 3)
	close(f.goOn)
	fails(t, <-done, codes.Aborted, "another call has changed which version of ctr answers meanwhile")
	f.stands(2, true, 3)
	f.state(1, StateEnd, "")
	if f.closes.Load() != 1 {
		t.Errorf("%d closed", f.closes.Load())
	}
}

func TestARollbackGoesToTheVersionThatAnsweredBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "default.json")
	kept := func(options *Options) {
		var err error
		if options.Store, err = rollout.OpenStore(path); err != nil {
			t.Fatal(err)
		}
	}
	f := looked(t, latest, []int64{1}, kept)
	f.write(2, "v2")
	f.write(3, "v3")
	f.look()
	f.write(4, "v4")
	f.write(5, "v5")
	f.look()
	again := newFakes(t, latest, kept, func(options *Options) { options.Models[0].BasePath = f.base })
	again.look()
	again.must(again.rollback("ctr", 0, "ann"))
	again.stands(3, true, 5)
	again.write(1, "broken")
	f.must(os.RemoveAll(filepath.Join(f.base, "1")))
	f.must(os.Rename(filepath.Join(again.base, "1"), filepath.Join(f.base, "1")))
	again.must(again.rollback("ctr", 0, "ann"))
	again.stands(2, true, 5, 3)
	again.state(1, StateEnd, "it is broken")
	if again.said("a call takes a version, as others cannot be loaded") != 1 || again.said("passed_over=[1]") != 1 {
		t.Error(again.log.String())
	}
}

func TestAPinSurvivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "default.json")
	kept := func(options *Options) {
		var err error
		if options.Store, err = rollout.OpenStore(path); err != nil {
			t.Fatal(err)
		}
	}
	f := looked(t, latest, []int64{1, 2, 3}, kept)
	f.must(f.rollback("ctr", 0, "ann"))
	again := newFakes(t, latest, kept, func(options *Options) { options.Models[0].BasePath = f.base })
	again.look()
	again.stands(2, true, 3)
	if again.loads.Load() != 1 {
		t.Errorf("%d loads", again.loads.Load())
	}
	f.must(os.Remove(path))
	f.must(os.Mkdir(path, 0o700)) // nothing can be written there
	fails(t, f.promote("ctr", 0, false, "ann"), codes.Internal, "nothing has changed: control.state_file cannot be written")
	f.stands(2, true, 3)
	f.must(os.Remove(path))
	f.must(f.promote("ctr", 0, false, "ann"))
	elsewhere := looked(t, latest, []int64{7}, kept)
	elsewhere.stands(7, false)
	if elsewhere.said("is of another base_path, and does not count") != 1 {
		t.Error(elsewhere.log.String())
	}
}

func TestAVersionThatWasRejectedIsNotServedByItselfAfterARestart(t *testing.T) {
	store, err := rollout.OpenStore("")
	kept := func(options *Options) { options.Store = store }
	f := newFakes(t, latest, kept)
	f.must(err)
	f.must(store.Keep("ctr", rollout.Held{BasePath: f.base}.Rejecting(4, time.Unix(1000, 0), "scores")))
	again := newFakes(t, latest, kept, func(options *Options) { options.Models[0].BasePath = f.base })
	f.write(4, "v4")
	again.look()
	if again.registry.Ready() || again.said("each version that it holds was rejected, or is newer than the one that is pinned; found: 4; promote one") != 1 {
		t.Error(again.log.String())
	}
	again.must(again.promote("ctr", 0, false, "ann"))
	again.stands(4, false)
}

func TestAVersionThatIsNamedAnswersWhateverIsPinned(t *testing.T) {
	f := looked(t, config.Versions{All: true}, []int64{1, 2, 3})
	f.must(f.rollback("ctr", 1, "ann"))
	f.look()
	f.stands(1, true, 3)
	if answer, version, err := f.ask(Spec{Name: "ctr", Version: 3}, "x"); answer != "v3" || version != 3 || err != nil {
		t.Error(answer, version, err)
	}
	f = looked(t, config.Versions{Specific: []int64{2, 3}}, []int64{1, 2, 3})
	f.must(f.rollback("ctr", 1, "ann"))
	f.look()
	f.stands(1, true, 3)
	f.must(f.promote("ctr", 0, false, "ann"))
	f.look()
	f.stands(3, false)
	f.registry.shared.draining.Wait()
	f.state(1, StateEnd, "")
}

func TestTheStateHasWhatIsKnownOfAVersion(t *testing.T) {
	f := newFakes(t, latest)
	f.write(3, "v3")
	extra := filepath.Join(f.base, "3", "assets.extra")
	f.must(os.MkdirAll(extra, 0o700))
	f.must(os.WriteFile(filepath.Join(extra, "afo.json"), []byte(`{"step": 7, "trained_at": 900.5}`), 0o600))
	f.write(4, "broken")
	f.look()
	for range 10 {
		f.answers("v3", 3)
	}
	_, _, err := f.ask(Spec{Name: "ctr", Version: 3}, "bad")
	fails(t, err, codes.Unknown, "a bad request")
	f.pass(2 * time.Second)
	state := f.registry.State()[0]
	if len(state.Versions) != 2 || state.Versions[0].State != "END" || state.Versions[0].Message != "it is broken" || state.RequestsPerSecond != 5.5 {
		t.Fatalf("%+v", state)
	}
	version := state.Versions[1]
	if version.Step == nil || *version.Step != 7 || version.NewestGradient == nil || *version.NewestGradient != 900 || *version.LoadedAt != 1000 ||
		version.Requests != 11 || version.Errors != 1 || version.P50 == nil || version.Layers != nil || version.Core != nil {
		t.Errorf("%+v", version)
	}
}

func TestSomeVersionAnswersHoweverCallsAndLooksFollow(t *testing.T) {
	f := looked(t, latest, []int64{1, 2, 3})
	f.registry.Start()
	stop := make(chan struct{})
	asked := make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				asked <- nil
				return
			default:
			}
			if _, _, err := f.ask(Spec{Name: "ctr"}, "x"); err != nil {
				asked <- err
				return
			}
		}
	}()
	for number := int64(4); number < 24; number++ {
		f.write(number, "x")
		switch number % 3 {
		case 0:
			f.must(f.promote("ctr", 0, false, "ann"))
		case 1:
			f.must(f.rollback("ctr", 1, "ann"))
		case 2:
			f.must(f.promote("ctr", 2, false, "ann"))
		}
	}
	close(stop)
	f.must(<-asked)
	f.must(f.registry.Close(context.Background()))
	if f.wrong.Load() || f.closes.Load() != f.loads.Load() {
		t.Errorf("%v: %d loaded, %d closed", f.wrong.Load(), f.loads.Load(), f.closes.Load())
	}
	fails(t, f.rollback("ctr", 0, "ann"), codes.Unavailable, "stopping")
	if strings.Contains(f.log.String(), "level=ERROR") {
		t.Error(f.log.String())
	}
}

func TestAPinnedVersionIsNotReplacedOnItsPlace(t *testing.T) {
	f := looked(t, latest, []int64{2, 3})
	f.must(f.rollback("ctr", 2, "ann"))
	f.write(2, "other")
	f.look()
	f.stands(2, true, 3)
	f.state(2, StateAvailable, "another one than the version 2 that answers")
	f.must(f.promote("ctr", 2, false, "ann"))
	f.answers("other", 2)
}

func TestAPinnedVersionThatIsGoneIsNamed(t *testing.T) {
	store, err := rollout.OpenStore("")
	kept := func(options *Options) { options.Store = store }
	f := looked(t, latest, []int64{3, 4}, kept)
	f.must(err)
	f.must(f.rollback("ctr", 3, "ann"))
	f.remove(3)
	f.look()
	f.stands(3, true, 4)
	if f.said("the pinned version is gone from base_path, and goes on from memory") != 1 {
		t.Error(f.log.String())
	}
	f.write(2, "v2")
	again := newFakes(t, latest, kept, func(options *Options) { options.Models[0].BasePath = f.base })
	again.look()
	again.look()
	again.stands(2, true, 4)
	state := again.registry.State()[0]
	if state.PinnedVersion == nil || *state.PinnedVersion != 3 || again.said("the pinned version is gone") != 1 {
		t.Errorf("%+v; %s", state, again.log.String())
	}
	f.remove(2)
	none := newFakes(t, latest, kept, func(options *Options) { options.Models[0].BasePath = f.base })
	none.look()
	if none.registry.Ready() || !none.registry.PromoteHelps("ctr") || none.said("the pinned version is gone") != 1 {
		t.Error(none.log.String())
	}
	none.must(none.promote("ctr", 0, false, "ann"))
	none.look()
	none.stands(4, false)
	if none.registry.PromoteHelps("ctr") || none.registry.State()[0].PinnedVersion != nil {
		t.Error("nothing is kept back")
	}
}

func TestARollbackFindsVersionsThatWereCopied(t *testing.T) {
	f := newFakes(t, latest, func(options *Options) {
		options.Models[0].Copied, options.Models[0].BasePath = options.Models[0].BasePath, "hdfs://ns/ctr"
	})
	for number := int64(1); number < 3; number++ {
		f.write(number, fmt.Sprint("v", number))
		f.look()
	}
	f.registry.shared.draining.Wait()
	f.must(f.rollback("ctr", 0, "ann"))
	f.stands(1, true, 2)
}
