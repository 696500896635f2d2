package models

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"afo/model_server/internal/config"
)

func TestWhatKeepsVersionsFromComingIsInTheStatusAndWhatIsServedStays(t *testing.T) {
	var problems []Problem
	f := newFakes(t, config.Versions{Latest: 1}, func(o *Options) { o.Problems = func(string) []Problem { return problems } })
	problems = []Problem{{Path: "hdfs://ns/ctr", Err: errors.New("no available namenodes")}}
	f.look()
	f.look()
	if f.said("no available namenodes") != 2 { // the entry, and that nothing is served for it
		t.Error(f.log.String())
	}
	f.write(3, "three")
	problems = []Problem{{Path: "hdfs://ns/ctr/4", Version: 4, Err: errors.New("the disk is full")}}
	f.look()
	f.answers("three", 3)
	f.state(4, StateEnd, "the disk is full")
	problems = nil
	f.write(4, "four")
	f.look()
	f.answers("four", 4)
	if all, err := f.registry.Status("ctr", 4); err != nil || strings.Contains(all[0].Message, "full") {
		t.Error(all, err)
	}
}

func TestOfWhatIsCopiedOnlyCopiesAreServed(t *testing.T) {
	foreign := map[int64]bool{4: true}
	f := newFakes(t, config.Versions{Latest: 1}, func(o *Options) {
		o.Models[0].Copied, o.Models[0].BasePath = o.Models[0].BasePath, "hdfs://ns/ctr"
		o.Check = func(_ string, version int64) error {
			if foreign[version] {
				return errors.New("it was not copied")
			}
			return nil
		}
	})
	f.write(2, "two")
	f.write(3, "three")
	f.write(4, "four")
	f.look()
	f.answers("three", 3)
	f.state(4, StateEnd, "it was not copied")
	if err := f.promote("ctr", 4, false, "ann"); err == nil || !strings.Contains(err.Error(), "has no version 4; available: 3, 2") {
		t.Error(err)
	}
	f.must(f.rollback("ctr", 0, "ann")) // of the cache, as there is no base_path here
	f.answers("two", 2)
	f.write(5, "base")
	f.must(os.Rename(filepath.Join(f.base, "5", savedModel), filepath.Join(f.base, savedModel)))
	f.look()
	f.answers("two", 2)
	if f.said("is no directory of a version") == 0 {
		t.Error("a SavedModel where copies are was passed over in silence")
	}
}
