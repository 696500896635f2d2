package models

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"afo/model_server/internal/config"

	"google.golang.org/grpc/codes"
)

func TestOneVersionIsLoadedAtATimeOfAllModels(t *testing.T) {
	var loading, most atomic.Int64
	f := newFakes(t, config.Versions{All: true}, func(options *Options) {
		first := options.Models[0]
		options.Models = append(options.Models, config.Model{Name: "cvr", BasePath: first.BasePath, Versions: first.Versions})
		load := options.Load
		options.Load = func(directory string) (Servable, error) {
			most.Store(max(most.Load(), loading.Add(1)))
			defer loading.Add(-1)
			return load(directory)
		}
	})
	const versions = 20
	for number := int64(1); number <= versions; number++ {
		f.write(number, "x")
	}
	f.registry.Start()
	f.until(func() bool { return f.loads.Load() == 2*versions })
	f.must(f.registry.Close(context.Background()))
	if most.Load() != 1 || f.closes.Load() != 2*versions || f.wrong.Load() {
		t.Errorf("%d at once, %d closed, wrong: %v", most.Load(), f.closes.Load(), f.wrong.Load())
	}
}

func TestTheEndDoesNotWaitForALoadAndLeavesNothingOpen(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	f := newFakes(t, latest, func(options *Options) {
		load := options.Load
		options.Load = func(directory string) (Servable, error) {
			close(begun)
			<-goOn
			return load(directory)
		}
	})
	f.write(1, "one")
	f.registry.Start()
	<-begun
	f.state(1, StateLoading, "")
	_, _, err := f.ask(Spec{Name: "ctr"}, "x")
	fails(t, err, codes.Unavailable, "no version of ctr is available yet; its status (GetModelStatus) says why")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.registry.Close(ended); err == nil {
		t.Error("a load is under way")
	}
	close(goOn)
	f.until(func() bool { return f.closes.Load() == 1 })
	f.registry.running.Wait()
	if f.registry.Ready() || f.model().find(1) != nil {
		t.Error("what was loaded too late is served")
	}
}

func TestALinkThatIsPointedElsewhereIsAnotherModel(t *testing.T) {
	f := newFakes(t, latest, func(options *Options) { options.Models[0].BasePath += "/current" })
	f.write(1, "one")
	f.write(2, "two")
	link := func(to string) {
		f.must(os.Symlink(filepath.Join(f.base, to), filepath.Join(f.base, "link")))
		f.must(os.Rename(filepath.Join(f.base, "link"), filepath.Join(f.base, "current")))
		f.look()
	}
	link("1")
	f.answers("one", 1)
	link("2")
	f.answers("two", 1)
}
