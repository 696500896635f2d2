package models

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// put writes a file of a version.
func (f *fakes) put(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.base, name)
	f.must(os.MkdirAll(filepath.Dir(path), 0o700))
	f.must(os.WriteFile(path, []byte(text), 0o600))
}

func TestAVersionThatIsBeingCopiedIsTriedAgainOnceTheCopyRests(t *testing.T) {
	f := newFakes(t, latest, func(options *Options) {
		load := options.Load
		options.Load = func(directory string) (Servable, error) {
			model, err := load(directory)
			if _, missing := os.Stat(filepath.Join(directory, "variables", "variables.index")); missing != nil {
				return nil, errors.New("no variables")
			}
			return model, err
		}
	})
	f.put("1/saved_model.pb", "one")
	expect := func(loads int64) {
		t.Helper()
		f.look()
		if f.loads.Load() != loads {
			t.Errorf("%d loads; expected %d", f.loads.Load(), loads)
		}
	}
	expect(1)
	f.put("1/variables/variables.data-00000-of-00001", "1")
	expect(1)
	f.put("1/variables/variables.data-00000-of-00001", "12")
	expect(1)
	expect(2)
	f.state(1, StateEnd, "no variables")
	expect(2)
	f.put("1/saved_model.pb", "one,")
	expect(2)
	f.put("1/saved_model.pb", "one, whole")
	expect(2)
	f.put("1/variables/variables.index", "")
	expect(2)
	expect(3)
	f.answers("one, whole", 1)
	f.put("1/variables/more", "")
	expect(3)
	expect(3)
}

func TestFilesAreToldApartInEveryDirectoryUpToABound(t *testing.T) {
	f := newFakes(t, latest)
	before := contentsOf(f.base)
	for _, name := range []string{"variables/a", "assets/deep/a", "assets.extra/afo.json", savedModel} {
		f.put(name, "a")
		after := contentsOf(f.base)
		f.put(name, "ab")
		if longer := contentsOf(f.base); after == before || longer == after {
			t.Errorf("%s is not looked at", name)
		}
		before = contentsOf(f.base)
	}
	f.must(os.Symlink(".", filepath.Join(f.base, "assets", "loop")))
	f.must(os.Symlink(".", filepath.Join(f.base, "assets", "pool")))
	looked := 0
	left := mostFiles
	walk(f.base, "assets", &left, func(string, os.FileInfo) { looked++ })
	if looked > mostFiles || left != 0 {
		t.Errorf("%d looked at, %d left", looked, left)
	}
}
