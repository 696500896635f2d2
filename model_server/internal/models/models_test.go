package models

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"afo/model_server/internal/concurrency"
	"afo/model_server/internal/config"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var latest = config.Versions{Latest: 1}

func fails(t *testing.T, err error, code codes.Code, says string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), says) {
		t.Errorf("%v; expected %v: %s", err, code, says)
	}
}

func TestRequestsGoOnWhileVersionsComeAndGo(t *testing.T) {
	f := newFakes(t, latest)
	f.write(1, "1")
	f.registry.Start()
	f.until(f.registry.Ready)
	var stop atomic.Bool
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			last := int64(0)
			for !stop.Load() {
				_, version, err := f.ask(Spec{Name: "ctr"}, "x")
				if err != nil || version < last {
					t.Errorf("version %d after %d: %v", version, last, err)
					return
				}
				last = version
			}
		})
	}
	const versions = 30
	for number := int64(2); number <= versions; number++ {
		f.write(number, "x")
		f.until(func() bool { return f.model().find(number) != nil })
		if number%3 == 0 {
			f.remove(number - 1)
		}
	}
	stop.Store(true)
	group.Wait()
	f.must(f.registry.Close(context.Background()))
	if f.wrong.Load() || f.closes.Load() != versions || f.loads.Load() != versions {
		t.Errorf("wrong: %v, %d loaded, %d closed", f.wrong.Load(), f.loads.Load(), f.closes.Load())
	}
}

func TestAVersionEndsItsRequestsBeforeItIsClosed(t *testing.T) {
	f := newFakes(t, latest)
	f.write(1, "one")
	f.look()
	answered := make(chan string)
	go func() {
		answer, _, _ := f.ask(Spec{Name: "ctr"}, "wait")
		answered <- answer
	}()
	<-f.entered
	f.write(2, "two")
	f.look()
	f.answers("two", 2)
	f.state(1, StateUnloading, "")
	if f.closes.Load() != 0 {
		t.Error("it is closed while it is used")
	}
	close(f.goOn)
	if answer := <-answered; answer != "one" {
		t.Error(answer)
	}
	f.until(func() bool { return f.closes.Load() == 1 })
	f.registry.shared.draining.Wait()
	f.state(1, StateEnd, "")
}

func TestALoadThatFailsKeepsWhatIsServed(t *testing.T) {
	f := newFakes(t, latest)
	f.write(1, "one")
	f.look()
	f.write(2, "broken glass")
	f.look()
	f.answers("one", 1)
	f.state(2, StateEnd, "it is broken glass")
	for range 3 {
		f.look()
	}
	if f.loads.Load() != 2 {
		t.Errorf("%d loads; nothing has changed", f.loads.Load())
	}
	f.pass(firstPause)
	f.look()
	f.look()
	if f.loads.Load() != 3 {
		t.Errorf("%d loads; it is tried again once after a pause", f.loads.Load())
	}
	f.write(2, "two")
	f.look()
	f.answers("two", 2)
	f.state(2, StateAvailable, "")
}

func TestPausesDoubleUpToABound(t *testing.T) {
	var failed *failure
	now := time.Unix(1000, 0)
	for _, expected := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		failed = failed.again(now, attempt{})
		if got := failed.until.Sub(now); got != expected*time.Second {
			t.Errorf("%v; expected %d s", got, expected)
		}
	}
	if failed.due(now, attempt{}) || !failed.due(now, attempt{identity: identity{inode: 1}}) || !failed.due(now.Add(mostPause), attempt{}) {
		t.Error("another file is due at once, and the same one after the pause")
	}
}

func TestWhatIsNoVersionYetIsPassedOver(t *testing.T) {
	f := newFakes(t, latest)
	f.write(1, "one")
	for _, name := range []string{"2", "3x", "tmp", "-4", "0", "99999999999999999999"} {
		f.must(os.MkdirAll(filepath.Join(f.base, name), 0o700))
		if name != "2" {
			f.must(os.WriteFile(filepath.Join(f.base, name, savedModel), []byte("no"), 0o600))
		}
	}
	f.must(os.WriteFile(filepath.Join(f.base, "5"), nil, 0o600))
	f.look()
	f.answers("one", 1)
	if f.loads.Load() != 1 {
		t.Errorf("%d loads", f.loads.Load())
	}
}

func TestWhatIsServedOutlivesItsDirectory(t *testing.T) {
	f := newFakes(t, latest)
	f.write(1, "one")
	f.write(2, "two")
	f.look()
	f.answers("two", 2)
	f.must(os.Rename(f.base, f.base+".away"))
	f.look()
	f.answers("two", 2)
	f.must(os.MkdirAll(f.base, 0o700))
	f.look()
	f.answers("two", 2)
	f.write(1, "one again")
	f.look()
	f.answers("one again", 1)
	f.must(os.RemoveAll(f.base + ".away"))
}

func TestPolicies(t *testing.T) {
	for _, each := range []struct {
		policy config.Versions
		served []int64
	}{
		{config.Versions{Latest: 1}, []int64{4}},
		{config.Versions{Latest: 3}, []int64{4, 3, 2}},
		{config.Versions{All: true}, []int64{4, 3, 2, 1}},
		{config.Versions{Specific: []int64{1, 3, 8}}, []int64{3, 1}},
	} {
		f := newFakes(t, each.policy)
		for number := int64(1); number <= 4; number++ {
			f.write(number, "x")
		}
		f.look()
		served := f.model().served.Load().versions
		if len(served) != len(each.served) {
			t.Errorf("%v: %d versions", each.policy, len(served))
			continue
		}
		for i, version := range served {
			if version.number != each.served[i] {
				t.Errorf("%v: version %d at %d", each.policy, version.number, i)
			}
		}
	}
}

func TestASpecificVersionStaysWithoutItsDirectory(t *testing.T) {
	f := newFakes(t, config.Versions{Specific: []int64{1, 2}})
	f.write(1, "one")
	f.write(2, "two")
	f.look()
	f.remove(1)
	f.look()
	f.state(1, StateAvailable, "")
}

func TestAModelThatIsReplacedInItsPlaceIsLoadedAnew(t *testing.T) {
	f := newFakes(t, latest, func(options *Options) { options.Models[0].BasePath += "/5" })
	f.write(5, "before")
	f.look()
	f.answers("before", 1)
	f.write(5, "broken")
	f.look()
	f.answers("before", 1)
	f.state(1, StateAvailable, "it is broken")
	f.write(5, "after")
	f.look()
	f.answers("after", 1)
	f.state(1, StateAvailable, "")
	f.until(func() bool { return f.closes.Load() == 1 })
	extra := filepath.Join(f.base, "5", "assets.extra")
	f.must(os.MkdirAll(extra, 0o700))
	f.must(os.WriteFile(filepath.Join(extra, "afo.json"), []byte(`{"step": 12, "manifest": "x"}`), 0o600))
	f.look()
	f.answers("after", 12)
	f.until(func() bool { return f.closes.Load() == 2 })
	if f.wrong.Load() {
		t.Error("a version was closed while it was used")
	}
}

func TestVersionsAndLabelsAreFound(t *testing.T) {
	f := newFakes(t, config.Versions{All: true})
	_, _, err := f.ask(Spec{Name: "ctr"}, "x")
	fails(t, err, codes.Unavailable, "no version of ctr is available yet, nor known of; the server's log says why")
	f.write(1, "one")
	f.write(2, "two")
	f.look()
	if answer, version, err := f.ask(Spec{Name: "ctr", Version: 1}, "x"); answer != "one" || version != 1 || err != nil {
		t.Error(answer, version, err)
	}
	if answer, version, err := f.ask(Spec{Name: "ctr", Label: "stable"}, "x"); answer != "one" || version != 1 || err != nil {
		t.Error(answer, version, err)
	}
	signatures, version, err := f.registry.Signatures(Spec{Name: "ctr"})
	if version != 2 || err != nil || signatures["serving_default"].MethodName != "two" {
		t.Error(signatures, version, err)
	}
	for _, each := range []struct {
		spec Spec
		code codes.Code
		says string
	}{
		{Spec{}, codes.InvalidArgument, "names no model"},
		{Spec{Name: "cvr"}, codes.NotFound, "models: ctr"},
		{Spec{Name: "ctr", Version: 3}, codes.NotFound, "available: 2, 1"},
		{Spec{Name: "ctr", Version: -3}, codes.InvalidArgument, "1 or more"},
		{Spec{Name: "ctr", Label: "old"}, codes.NotFound, "labels: next, stable"},
		{Spec{Name: "ctr", Label: "next"}, codes.NotFound, `version 9 (label "next")`},
		{Spec{Name: "ctr", Label: "stable", Version: 1}, codes.InvalidArgument, "a version and a label"},
	} {
		_, _, err := f.ask(each.spec, "x")
		fails(t, err, each.code, each.says)
	}
	_, err = f.registry.Status("ctr", 3)
	fails(t, err, codes.NotFound, "no version 3; known: 2 (AVAILABLE), 1 (AVAILABLE)")
}

func TestReadinessIsOfAllModelsAndEndsWithTheDrain(t *testing.T) {
	f := newFakes(t, latest, func(options *Options) {
		options.Models = append(options.Models, config.Model{Name: "cvr", BasePath: options.Models[0].BasePath + "/2", Versions: latest})
	})
	f.write(1, "one")
	f.look()
	if f.registry.Ready() {
		t.Error("one model has no version")
	}
	f.write(2, "two")
	f.registry.models["cvr"].look(context.Background())
	if !f.registry.Ready() {
		t.Error("both have one")
	}
	f.registry.Drain()
	if f.registry.Ready() {
		t.Error("it drains")
	}
	f.answers("one", 1)
}

func TestRequestsBeyondTheLimitsAreRefused(t *testing.T) {
	f := newFakes(t, latest, func(options *Options) {
		options.Slots = concurrency.New([]string{"ctr"}, concurrency.Limits{Concurrent: 1, Queued: 1})
	})
	f.write(1, "one")
	f.look()
	errors := make(chan error, 2)
	ask := func(ctx context.Context) {
		_, _, err := f.registry.Predict(ctx, Spec{Name: "ctr"}, []byte("wait"))
		errors <- err
	}
	go ask(context.Background())
	<-f.entered
	ctx, cancel := context.WithCancel(context.Background())
	go ask(ctx)
	f.until(func() bool { return f.registry.slots.Use()["ctr"].Waiting == 1 })
	_, _, err := f.ask(Spec{Name: "ctr"}, "x")
	fails(t, err, codes.ResourceExhausted, "1 requests for ctr wait")
	cancel()
	fails(t, <-errors, codes.Canceled, "canceled")
	expired, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, _, err = f.registry.Predict(expired, Spec{Name: "ctr"}, []byte("x"))
	fails(t, err, codes.DeadlineExceeded, "deadline")
	close(f.goOn)
	if err := <-errors; err != nil {
		t.Error(err)
	}
	f.answers("one", 1)
}

func TestEndedVersionsAreNotRememberedForever(t *testing.T) {
	f := newFakes(t, latest)
	for number := int64(1); number <= 40; number++ {
		f.write(number, "x")
		f.look()
		f.remove(number)
	}
	f.registry.shared.draining.Wait()
	all, err := f.registry.Status("ctr", 0)
	if err != nil || len(all) != mostEnded+1 || all[0].State != StateAvailable {
		t.Errorf("%d statuses, %v", len(all), err)
	}
}

func TestWhatIsSaidIsTrueWhereNothingIsServed(t *testing.T) {
	f := newFakes(t, latest)
	f.look()
	if f.said("base_path cannot be used; no version is served") != 1 || f.said("what is served stays") != 0 {
		t.Error(f.log.String())
	}
	f.loop("8")
	f.look()
	f.look()
	if f.said("it holds no version that can be read; "+filepath.Join(f.base, "8")) != 1 {
		t.Error(f.log.String())
	}
	f.write(3, "broken "+f.base)
	f.look()
	if f.said("a version cannot be loaded; no version is served") != 1 {
		t.Error(f.log.String())
	}
	f.state(3, StateEnd, f.base)
	_, _, err := f.ask(Spec{Name: "ctr"}, "x")
	fails(t, err, codes.Unavailable, "no version of ctr is available yet; its status (GetModelStatus) says why")
	if strings.Contains(err.Error(), f.base) {
		t.Error(err)
	}
	f.write(3, "three")
	f.look()
	f.must(os.Rename(f.base, f.base+".away"))
	f.look()
	if f.said("base_path cannot be used; what is served stays") != 1 {
		t.Error(f.log.String())
	}
	f.must(os.Rename(f.base+".away", f.base))
}

func TestVersionsThatAreNamedAndNotThereAreListed(t *testing.T) {
	f := newFakes(t, config.Versions{Specific: []int64{3, 4}})
	f.write(1, "one")
	f.write(2, "two")
	f.look()
	if f.said("none of the versions of model_version_policy.specific; named: 3, 4; found: 2, 1") != 1 {
		t.Error(f.log.String())
	}
}

func TestAnErrorComesWithTheVersionThatWasAskedFor(t *testing.T) {
	f := newFakes(t, config.Versions{All: true})
	f.write(1, "one")
	f.write(2, "two")
	f.write(9, "broken")
	f.look()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, each := range []struct {
		ctx      context.Context
		spec     Spec
		text     string
		expected int64
	}{
		{context.Background(), Spec{Version: 1}, "bad", 1},
		{context.Background(), Spec{}, "bad", 2},
		{context.Background(), Spec{Label: "stable"}, "bad", 1},
		{context.Background(), Spec{Label: "next"}, "x", 9},
		{context.Background(), Spec{Version: 9}, "x", 9},
		{context.Background(), Spec{Version: 1234}, "x", 0},
		{context.Background(), Spec{Version: -1}, "x", 0},
		{context.Background(), Spec{Label: "made up"}, "x", 0},
		{ended, Spec{Version: 1}, "x", 1},
		{ended, Spec{}, "x", 2},
	} {
		each.spec.Name = "ctr"
		if _, version, err := f.registry.Predict(each.ctx, each.spec, []byte(each.text)); err == nil || version != each.expected {
			t.Errorf("%v: version %d, %v; expected %d", each.spec, version, err, each.expected)
		}
	}
}
