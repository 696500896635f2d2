package models

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"afo/model_server/internal/config"
)

// loop makes the directory of a version a link to itself.
func (f *fakes) loop(name string) {
	f.t.Helper()
	f.must(os.Symlink(name, filepath.Join(f.base, name)))
}

func TestAnEntryThatCannotBeReadIsPassedOver(t *testing.T) {
	f := newFakes(t, latest)
	f.write(3, "three")
	f.loop("8")
	f.look()
	f.look()
	f.answers("three", 3)
	f.state(8, StateEnd, "too many links")
	if got := f.said("passed over"); got != 1 || f.said(filepath.Join(f.base, "8")) != 1 {
		t.Errorf("said %d times", got)
	}
	f.remove(8)
	f.look()
	f.loop("8")
	f.look()
	if got := f.said("passed over"); got != 2 {
		t.Errorf("said %d times; it was away meanwhile", got)
	}
	f.remove(8)
	f.write(8, "eight")
	f.look()
	f.answers("eight", 8)
}

func TestAVersionIsServedWhileItsEntryCannotBeRead(t *testing.T) {
	f := newFakes(t, latest)
	f.write(1, "one")
	f.write(2, "two")
	f.look()
	f.remove(2)
	f.loop("2")
	f.look()
	f.answers("two", 2)
	f.state(2, StateAvailable, "")
	if f.loads.Load() != 1 {
		t.Errorf("%d loads", f.loads.Load())
	}
}

func TestOfTwoDirectoriesOfOneVersionTheOneWithoutZerosIsTaken(t *testing.T) {
	f := newFakes(t, config.Versions{All: true})
	f.write(2, "two")
	f.write(3, "three")
	for _, name := range []string{"003", "03"} {
		f.must(os.CopyFS(filepath.Join(f.base, name), os.DirFS(filepath.Join(f.base, "2"))))
	}
	found, problems, err := scan(f.base)
	if err != nil || len(found) != 2 || found[0].path != filepath.Join(f.base, "3") {
		t.Error(found, err)
	}
	if len(problems) != 2 || problems[0].path != filepath.Join(f.base, "03") ||
		!strings.Contains(problems[0].err.Error(), "version 3 as well as") {
		t.Error(problems)
	}
	f.look()
	f.answers("three", 3)
}
