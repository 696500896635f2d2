package models

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"afo/model_server/internal/config"
)

func TestAFIFOInThePlaceOfAFileIsAnErrorThatNamesIt(t *testing.T) {
	for _, name := range []string{
		savedModel, "fingerprint.pb", "assets/tables/a", "variables/variables.index", "assets.extra/afo.json",
		"assets.extra/tf_serving_warmup_requests",
	} {
		f := newFakes(t, latest)
		f.put("1/"+savedModel, "one")
		path := filepath.Join(f.base, "1", name)
		f.must(os.MkdirAll(filepath.Dir(path), 0o700))
		if name == savedModel {
			f.must(os.Remove(path))
		}
		f.must(syscall.Mkfifo(path, 0o600))
		f.look()
		f.state(1, StateEnd, path+" is no regular file (prw-------)")
		if f.loads.Load() != 0 {
			t.Errorf("%s: it was loaded", name)
		}
	}
	f := newFakes(t, latest)
	f.put("1/"+savedModel, "one")
	f.put("file", "")
	f.must(os.MkdirAll(filepath.Join(f.base, "1", "assets"), 0o700))
	for link, to := range map[string]string{"assets/a": "../../file", "assets/dangling": "nowhere"} {
		f.must(os.Symlink(to, filepath.Join(f.base, "1", link)))
	}
	f.must(syscall.Mkfifo(filepath.Join(f.base, "1", "other"), 0o600))
	f.look()
	f.answers("one", 1)
}

func TestAFIFOAsTheDescriptionOfAModelThatIsTheBaseDoesNotHang(t *testing.T) {
	f := newFakes(t, latest)
	f.put(savedModel, "one")
	path := filepath.Join(f.base, "assets.extra", "afo.json")
	f.must(os.Mkdir(filepath.Dir(path), 0o700))
	f.must(syscall.Mkfifo(path, 0o600))
	f.look()
	all, err := f.registry.Status("ctr", 0)
	if err != nil || len(all) != 1 || !strings.Contains(all[0].Message, "afo.json is no regular file") {
		t.Error(all, err)
	}
}

func TestALoadThatHangsKeepsNoOtherModelFromLoading(t *testing.T) {
	goOn := make(chan struct{})
	f := newFakes(t, latest, func(options *Options) {
		first := options.Models[0]
		options.Models = append(options.Models, config.Model{Name: "cvr", BasePath: first.BasePath + "/cvr", Versions: latest})
		load := options.Load
		options.Load = func(directory string) (Servable, error) {
			if filepath.Base(directory) == "1" {
				<-goOn
			}
			return load(directory)
		}
	})
	f.registry.shared.patience = patience{remind: time.Millisecond, hold: 8 * time.Millisecond}
	f.write(1, "one")
	f.registry.Start()
	f.until(func() bool { return f.said("still loading after 4ms") == 1 })
	f.put("cvr/2/"+savedModel, "two")
	f.until(func() bool { return f.registry.models["cvr"].find(2) != nil })
	if f.said("a load takes over 8ms") == 0 || f.said("still loading after 1ms") == 0 {
		t.Error(f.log.String())
	}
	close(goOn)
	f.until(f.registry.Ready)
	f.answers("one", 1)
	f.must(f.registry.Close(context.Background()))
	if len(f.registry.shared.loading) != 0 || f.wrong.Load() {
		t.Error("a turn is kept")
	}
}
