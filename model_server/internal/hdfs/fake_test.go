package hdfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"afo/model_server/internal/config"
	"afo/model_server/internal/rollout"
)

const base = "/models/ctr"

// fake is a file system in memory: files by their paths, and when each was written.
type fake struct {
	files map[string]string
	times map[string]int64
	tick  int64
	// broken is what every call answers.
	broken error
	// reading is called before a file is read.
	reading func(file string)
	entry   *Entry
	reads   int
	lists   int
}

func (f *fake) write(name, text string) {
	f.tick++
	f.files[path.Join(base, name)] = text
	for at := path.Join(base, name); at != "/"; at = path.Dir(at) {
		f.times[at] = f.tick
	}
}

func (f *fake) remove(name string) {
	f.tick++
	at := path.Join(base, name)
	maps.DeleteFunc(f.files, func(file, _ string) bool { return file == at || strings.HasPrefix(file, at+"/") })
	f.times[path.Dir(at)] = f.tick
}

func (f *fake) List(_ context.Context, directory string, most int) ([]Entry, error) {
	f.lists++
	if f.broken != nil {
		return nil, f.broken
	}
	found := map[string]Entry{}
	for file, text := range f.files {
		rest, below := strings.CutPrefix(file, directory+"/")
		if !below {
			continue
		}
		name, _, nested := strings.Cut(rest, "/")
		entry := Entry{Name: name, Modified: f.times[path.Join(directory, name)], Directory: nested}
		if !nested {
			entry.Size = int64(len(text))
		}
		found[name] = entry
	}
	if f.entry != nil && strings.HasSuffix(directory, "/4") {
		found[f.entry.Name] = *f.entry
	}
	if len(found) > most {
		return nil, errors.New("too many")
	}
	if len(found) == 0 {
		return nil, fs.ErrNotExist
	}
	return slices.Collect(maps.Values(found)), nil
}

func (f *fake) Open(_ context.Context, file string) (io.ReadCloser, error) {
	if f.broken != nil {
		return nil, f.broken
	}
	text, ok := f.files[file]
	if !ok {
		return nil, fs.ErrNotExist
	}
	f.reads++
	if f.reading != nil {
		f.reading(file)
	}
	return io.NopCloser(bytes.NewBufferString(text)), nil
}

// copied is a copier of a fake, and a clock.
type copied struct {
	*Copier
	t         *testing.T
	remote    *fake
	clock     time.Time
	standings map[int64]Standing
	held      rollout.Held
}

func newCopied(t *testing.T, policy config.Versions) *copied {
	m := &copied{t: t, remote: &fake{files: map[string]string{}, times: map[string]int64{}}, clock: time.Unix(1000, 0),
		standings: map[int64]Standing{}}
	m.Copier = m.another(filepath.Join(t.TempDir(), "cache"), policy)
	return m
}

// another is one more copier of the same.
func (m *copied) another(directory string, policy config.Versions) *Copier {
	made, err := New(Options{
		URL: "hdfs://ns" + base, Path: base, Directory: directory, Policy: policy, Files: m.remote, Poll: time.Millisecond,
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return m.clock },
		Standing: func(number int64) Standing { return m.standings[number] },
		Held:     func() rollout.Held { return m.held },
	})
	m.must(err)
	return made
}

func (m *copied) put(version int, parent int) {
	said := fmt.Sprintf(`{"step": %d, "parent": null}`, version)
	if parent != 0 {
		said = fmt.Sprintf(`{"step": %d, "parent": %d}`, version, parent)
	}
	m.remote.write(fmt.Sprintf("%d/assets.extra/afo.json", version), said)
	m.remote.write(fmt.Sprintf("%d/variables/variables.index", version), "v")
	m.remote.write(fmt.Sprintf("%d/saved_model.pb", version), fmt.Sprintf("graph %d", version))
}

// pass is one look, after the longest pause.
func (m *copied) pass() {
	m.clock = m.clock.Add(time.Hour)
	m.look(context.Background())
}

// is checks which versions are here, hidden ones too: `.3.gone`.
func (m *copied) is(expected ...string) {
	m.t.Helper()
	entries, err := os.ReadDir(m.Options.Directory)
	m.must(err)
	found := []string{}
	for _, each := range entries {
		name := each.Name()
		if match := hidden.FindStringSubmatch(name); match != nil {
			name = "." + match[1] + "." + match[2]
		}
		if name != ".lock" {
			found = append(found, name)
		}
	}
	if slices.Sort(found); !slices.Equal(found, expected) {
		m.t.Errorf("here is %v; expected %v", found, expected)
	}
}

// says checks that the one problem holds a text; "": there is none.
func (m *copied) says(text string) {
	m.t.Helper()
	found := m.Problems()
	if text == "" && len(found) == 0 {
		return
	}
	if text == "" || len(found) != 1 || !strings.Contains(found[0].Err.Error(), text) {
		m.t.Errorf("problems %v; expected %q", found, text)
	}
}

func (m *copied) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}
