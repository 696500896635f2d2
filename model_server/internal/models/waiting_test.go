package models

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"afo/model_server/internal/config"
	"afo/model_server/internal/rollout"
)

// lists checks the versions of the state, each with its state and the beginning of its message, and how many wait.
func (f *fakes) lists(waiting int64, expected ...string) {
	f.t.Helper()
	state := f.registry.State()[0]
	var found []string
	for _, each := range state.Versions {
		found = append(found, strings.TrimSpace(fmt.Sprintf("%d %s %s", each.Version, each.State, each.Message)))
	}
	same := len(found) == len(expected) && state.Waiting == waiting
	for i := range expected {
		same = same && strings.HasPrefix(found[i], expected[i])
	}
	if !same {
		f.t.Errorf("%d wait, %q; expected %d, %q", state.Waiting, found, waiting, expected)
	}
}

func TestVersionsBehindAPinAreListedAndCounted(t *testing.T) {
	f := looked(t, latest, []int64{1, 2})
	f.must(f.rollback("ctr", 0, "ann"))
	for number := int64(3); number < 9; number++ {
		f.write(number, "v")
	}
	f.look()
	f.registry.shared.draining.Wait()
	because := " WAITING version 1 is pinned; `afo serving promote ctr` ends that"
	f.lists(6, "8"+because, "7"+because, "2 END", "1 AVAILABLE")
	f.remove(8)
	f.must(f.promote("ctr", 0, false, "ann"))
	f.look()
	f.registry.shared.draining.Wait()
	f.lists(0, "7 AVAILABLE", "2 END", "1 END")
	f.must(f.promote("ctr", 6, false, "ann"))
	f.look()
	f.registry.shared.draining.Wait()
	f.lists(1, "7 WAITING version 6 is pinned", "6 AVAILABLE", "2 END", "1 END")
}

func TestVersionsBehindACanaryAreListedAndItSaysWhatItWaitsFor(t *testing.T) {
	for _, policy := range []config.Versions{latest, {All: true}} {
		f := newFakes(t, policy, withCanary)
		f.write(1, "scores 0.25")
		f.look()
		f.write(2, "scores 0.25")
		f.look()
		f.write(3, "scores 0.25")
		f.look()
		if policy.All {
			f.lists(0, "3 AVAILABLE the canary of version 2 is under way; it answers requests that name it", "2 AVAILABLE", "1 AVAILABLE")
		} else {
			f.lists(1, "3 WAITING the canary of version 2 is under way", "2 AVAILABLE", "1 AVAILABLE")
		}
		says := func(text string) {
			t.Helper()
			if got := f.registry.State()[0].Canary; got.DurationSeconds != 60 || got.MinRequests != compared || got.Waits != text {
				t.Errorf("%+v; expected %q", got, text)
			}
		}
		says("the canary has answered 0 requests of gate.min_requests 20")
		f.users(400, map[string]int64{})
		f.pass(20 * time.Second)
		says("its duration 1m0s is over in 40s")
	}
}

func TestAVersionThatThePolicyDoesNotNameWaits(t *testing.T) {
	f := looked(t, config.Versions{Specific: []int64{2}}, []int64{1, 2, 3})
	f.lists(1, "3 WAITING model_version_policy.specific does not name it", "2 AVAILABLE")
}

func TestVersionsThatAreNotCopiedYetAreListed(t *testing.T) {
	there := []int64{2, 5, 1, 4, 3}
	f := looked(t, latest, []int64{1, 2}, func(options *Options) {
		options.Models[0].Copied, options.Models[0].BasePath = options.Models[0].BasePath, "hdfs://ns/ctr"
		options.Remote = func(string) []int64 { return there }
	})
	f.lists(1, "5 WAITING it is not copied from hdfs://ns/ctr yet", "2 AVAILABLE")
	f.must(f.rollback("ctr", 1, "ann"))
	f.look()
	f.registry.shared.draining.Wait()
	f.lists(3, "5 WAITING version 1 is pinned", "4 WAITING version 1 is pinned", "2 END", "1 AVAILABLE")
}

func TestAVersionThatIsLoadedAfterTheStableOneWaits(t *testing.T) {
	store, err := rollout.OpenStore("")
	f := newFakes(t, latest, withCanary, func(options *Options) { options.Store = store })
	f.must(err)
	f.write(1, "hangs")
	f.write(2, "v2")
	f.must(store.Keep("ctr", rollout.Held{BasePath: f.base, Stable: 1}))
	f.model().hold()
	looks := make(chan struct{})
	go func() {
		f.look()
		close(looks)
	}()
	<-f.loading
	f.lists(1, "2 WAITING version 1 is loaded first, as it answered before the server was started", "1 LOADING")
	close(f.goOn)
	<-looks
	f.look()
	f.lists(0, "2 AVAILABLE", "1 AVAILABLE")
}
