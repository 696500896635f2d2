package hdfs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"afo/model_server/internal/config"
)

var latest = config.Versions{Latest: 1}

func TestTheNewestVersionIsCopiedWholeWithWhatItStandsOn(t *testing.T) {
	m := newCopied(t, latest)
	m.put(1, 0)
	m.put(2, 0)
	m.put(3, 2)
	m.put(4, 3)
	m.pass()
	m.is("2", "3", "4")
	m.says("")
	text, err := os.ReadFile(filepath.Join(m.Options.Directory, "4", "saved_model.pb"))
	m.must(err)
	if string(text) != "graph 4" {
		t.Errorf("%q", text)
	}
	reads := m.remote.reads
	m.pass()
	if m.remote.reads != reads {
		t.Errorf("%d files were read of what is here", m.remote.reads-reads)
	}
}

func TestALookAtRestListsTheDirectoryAlone(t *testing.T) {
	m := newCopied(t, latest)
	m.put(4, 0)
	m.pass()
	lists := m.remote.lists
	m.clock = m.clock.Add(time.Second)
	m.look(context.Background())
	if m.remote.lists != lists+1 {
		t.Errorf("%d directories were listed", m.remote.lists-lists)
	}
}

func TestAllVersionsOrThoseNamedAreCopied(t *testing.T) {
	for _, each := range []struct {
		policy   config.Versions
		expected []string
	}{
		{config.Versions{All: true}, []string{"1", "2", "3", "4"}},
		{config.Versions{Specific: []int64{2, 9}}, []string{"2"}},
		{config.Versions{Latest: 2}, []string{"3", "4"}},
	} {
		m := newCopied(t, each.policy)
		for version := 1; version <= 4; version++ {
			m.put(version, 0)
		}
		m.pass()
		m.is(each.expected...)
	}
}

func TestOldVersionsGoButNotTheLastOneAndNoneThatIsUsed(t *testing.T) {
	m := newCopied(t, latest)
	for version := 1; version <= 3; version++ {
		m.put(version, 0)
		m.standings[int64(version)] = Used
		m.pass()
	}
	m.is("1", "2", "3") // all are used
	m.standings = map[int64]Standing{3: Used}
	m.put(4, 0)
	m.pass()
	m.is(".1.gone", ".2.gone", "3", "4")
	m.pass()
	m.is("3", "4")
	m.standings = map[int64]Standing{4: Used}
	m.pass()
	m.is("3", "4") // to go back to
}

func TestWhatVanishedThereIsHiddenWhileItIsUsed(t *testing.T) {
	m := newCopied(t, latest)
	m.put(3, 0)
	m.pass()
	m.put(4, 3)
	m.pass()
	m.standings[4] = Used
	m.remote.remove("4")
	m.pass()
	m.is(".4.gone", "3")
	m.standings = map[int64]Standing{3: Used}
	m.pass()
	m.is("3")
}

func TestADirectoryThatIsEmptiedOrGoneTakesNothingAway(t *testing.T) {
	m := newCopied(t, latest)
	m.put(3, 0)
	m.pass()
	m.remote.remove("3")
	m.pass()
	m.is("3")
	m.says("not exist")
	m.remote.write("notes.txt", "x")
	m.pass()
	m.is("3")
	m.says("")
}

func TestAClusterThatDoesNotAnswerIsAskedAfterPausesAndWhatIsHereStays(t *testing.T) {
	m := newCopied(t, latest)
	m.put(3, 0)
	m.pass()
	m.remote.broken = errors.New("no available namenodes")
	m.pass()
	m.says("no available namenodes")
	if m.Problems()[0].Version != 0 || m.Problems()[0].Path != "hdfs://ns/models/ctr" {
		t.Error(m.Problems())
	}
	m.remote.broken = nil
	m.put(4, 0)
	m.clock = m.clock.Add(4 * time.Second)
	m.look(context.Background())
	m.is("3")
	m.clock = m.clock.Add(2 * time.Second)
	m.look(context.Background())
	m.is("3", "4")
	m.says("")
}

func TestAVersionThatIsBeingWrittenIsWaitedFor(t *testing.T) {
	m := newCopied(t, latest)
	m.remote.write("4/variables/variables.index", "v")
	m.pass()
	m.is()
	m.says("")
	m.put(4, 0)
	m.remote.write("4/assets/words.txt._COPYING_", "half")
	m.pass()
	m.is()
	m.remote.remove("4/assets/words.txt._COPYING_")
	m.pass()
	m.is("4")
}

func TestAVersionThatChangesWhileItIsCopiedIsCopiedAgain(t *testing.T) {
	m := newCopied(t, latest)
	m.put(4, 0)
	m.remote.reading = func(file string) {
		m.remote.reading = nil
		m.remote.write("4/variables/variables.index", "new")
	}
	m.pass()
	m.is()
	m.says("")
	m.pass()
	m.is("4")
}

func TestAVersionThatIsReplacedThereIsReplacedHere(t *testing.T) {
	m := newCopied(t, latest)
	m.put(4, 0)
	m.pass()
	m.standings[4] = Loading
	m.remote.write("4/saved_model.pb", "another graph")
	m.pass()
	m.says("")
	read := func() string {
		text, err := os.ReadFile(filepath.Join(m.Options.Directory, "4", "saved_model.pb"))
		m.must(err)
		return string(text)
	}
	if read() != "graph 4" {
		t.Error("it was replaced while it was loaded")
	}
	m.standings[4] = Used
	m.pass()
	if read() != "another graph" {
		t.Error(read())
	}
	m.is("4")
}

func TestASavedModelItselfIsAVersionByItsStep(t *testing.T) {
	m := newCopied(t, latest)
	m.remote.write("saved_model.pb", "graph")
	m.remote.write("assets.extra/afo.json", `{"step": 2000}`)
	m.pass()
	m.is("2000")
	m.standings[2000] = Used
	m.remote.write("assets.extra/afo.json", `{"step": 500}`)
	m.remote.write("saved_model.pb", "graph of less")
	m.pass()
	m.is(".2000.gone", "500")
	m.standings = map[int64]Standing{500: Used}
	m.pass()
	m.is("500")
	m.remote.write("assets.extra/afo.json", `{"step": 600, "parent": 500}`)
	m.pass()
	m.says("has to be the directory of both")
}

func TestAVersionThatCannotBeCopiedIsAProblemAndAnOlderOneIsTaken(t *testing.T) {
	for name, each := range map[string]struct {
		entry Entry
		says  string
	}{
		"a way out":    {Entry{Name: "../../x"}, "no file can have here"},
		"dots":         {Entry{Name: ".."}, "no file can have here"},
		"a link":       {Entry{Name: "link", Refused: "is a link"}, "/models/ctr/4/link is a link"},
		"too large":    {Entry{Name: "table", Size: 1 << 60}, "free space, or name another cache_directory"},
		"no such file": {Entry{Name: "ghost", Size: 3}, "it vanished"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newCopied(t, latest)
			m.put(3, 0)
			m.put(4, 0)
			m.remote.entry = &each.entry
			m.pass()
			m.says(each.says)
			m.is()
			m.pass()
			m.is("3")
			m.says(each.says)
			if m.Problems()[0].Version != 4 {
				t.Error(m.Problems())
			}
			m.remote.entry = nil
			m.pass()
			m.is("3", "4")
			m.says("")
		})
	}
}

func TestAParentThatIsMissingOrNoneIsAProblem(t *testing.T) {
	for parent, says := range map[int]string{2: "version 2, on which it stands, is not there", 4: "a parent is older", -1: "a parent is older"} {
		m := newCopied(t, latest)
		m.put(4, parent)
		m.pass()
		m.says(says)
		m.is()
	}
}

func TestWhatAKilledServerHadBegunGoes(t *testing.T) {
	m := newCopied(t, latest)
	m.put(4, 0)
	m.must(os.MkdirAll(filepath.Join(m.Options.Directory, ".4.0123456789ab.tmp", "variables"), 0o700))
	m.must(os.MkdirAll(filepath.Join(m.Options.Directory, ".mine"), 0o700))
	m.pass()
	m.is(".mine", "4")
}

func TestASecondServerCopiesNothingIntoTheSameDirectory(t *testing.T) {
	m := newCopied(t, latest)
	m.put(4, 0)
	m.pass()
	other := *m
	other.Copier = m.another(m.Options.Directory, config.Versions{All: true})
	m.put(5, 0)
	other.pass()
	other.says("another server copies into")
	m.is("4")
}

func TestACopyThatIsCancelledLeavesNothing(t *testing.T) {
	m := newCopied(t, latest)
	m.put(4, 0)
	ctx, cancel := context.WithCancel(context.Background())
	m.remote.reading = func(string) { cancel() }
	m.look(ctx)
	m.is()
	if m.Problems() != nil {
		t.Error(m.Problems())
	}
}
