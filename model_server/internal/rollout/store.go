package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"afo/model_server/internal/durable"
)

const mostStoreBytes = 16 << 20

// Store keeps what is held of each model in a file. Nobody else writes it.
type Store struct {
	path string // "": in memory alone

	mutex sync.Mutex
	stored
}

// mostElsewhere is how many former places of a model are kept.
const mostElsewhere = 8

// stored is the content of the file.
type stored struct {
	Models map[string]Held `json:"models"`
	// Elsewhere is what was held of a model at other places, the last one last: an edit of base_path may be undone.
	Elsewhere map[string][]Held `json:"elsewhere,omitempty"`
}

// OpenStore reads the file, where there is one. One that is damaged is an error: a version that an operator rolled back
// from would answer again.
func OpenStore(path string) (*Store, error) {
	s := &Store{path: path, stored: stored{Models: map[string]Held{}}}
	if path == "" {
		return s, nil
	}
	text, err := readStore(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, refuseLink(path)
	}
	if err != nil {
		return nil, fmt.Errorf("control.state_file cannot be read, which holds pinned and rejected versions: %w", err)
	}
	if err := s.parse(text); err != nil {
		return nil, fmt.Errorf("control.state_file %s, which holds pinned and rejected versions, is damaged: %w; mend it, or remove it to"+
			" take the newest version of each model", path, err)
	}
	return s, nil
}

// refuseLink refuses a link to a file that is not there: its disk may be away, and what it holds with it.
func refuseLink(path string) error {
	target, err := os.Readlink(path)
	if err != nil {
		return nil // there is nothing, not even a link
	}
	return fmt.Errorf("control.state_file %s, which holds pinned and rejected versions, is a link to %s, which is not there; bring that back,"+
		" or remove the link to take the newest version of each model", path, target)
}

func readStore(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, mostStoreBytes+1))
}

func (s *Store) parse(text []byte) error {
	if len(text) > mostStoreBytes {
		return fmt.Errorf("it has over %d bytes", mostStoreBytes)
	}
	var read stored
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	if read.Models == nil {
		return errors.New("it has no key `models`")
	}
	for name, held := range read.Models {
		if err := held.check(); err != nil {
			return fmt.Errorf("model %q: %w", name, err)
		}
		read.Models[name] = held.withFloor()
	}
	for name, all := range read.Elsewhere {
		for i, held := range all {
			if err := held.check(); err != nil {
				return fmt.Errorf("model %q at %q: %w", name, held.BasePath, err)
			}
			all[i] = held.withFloor()
		}
	}
	s.stored = read
	return nil
}

func (h Held) check() error {
	if h.Pinned < 0 || h.Stable < 0 || h.Floor < 0 {
		return fmt.Errorf("pinned is %d, stable %d and floor %d; allowed: 0 or more", h.Pinned, h.Stable, h.Floor)
	}
	return nil
}

// withFloor is for files that have no floor yet.
func (h Held) withFloor() Held {
	for _, each := range h.Rejected {
		h = h.Leaving(each.Version)
	}
	return h
}

// Of is what is held of a model. Other: what was held last is of another base_path, and not meant.
func (s *Store) Of(model, basePath string) (held Held, other string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	held, ok := s.Models[model]
	if ok && !samePlace(held.BasePath, basePath) {
		other, held = held.BasePath, Held{}
		for _, each := range s.Elsewhere[model] {
			if samePlace(each.BasePath, basePath) {
				held = each
			}
		}
	}
	held.BasePath = basePath
	return held, other
}

// samePlace compares paths, however they are written and whatever links are in them.
func samePlace(a, b string) bool {
	return filepath.Clean(a) == filepath.Clean(b) || resolved(a) == resolved(b)
}

// resolved is a path without links; what cannot be followed, as a place in HDFS, stands for itself.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// Keep holds something else of a model, once it is in the file.
func (s *Store) Keep(model string, held Held) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	next := stored{maps.Clone(s.Models), maps.Clone(s.Elsewhere)}
	if before, ok := s.Models[model]; ok && before.BasePath != held.BasePath {
		next.leave(model, before, held)
	}
	next.Models[model] = held
	if s.path != "" {
		text, err := json.MarshalIndent(next, "", " ")
		if err == nil {
			err = durable.Replace(s.path, append(text, '\n'))
		}
		if err != nil {
			return fmt.Errorf("control.state_file cannot be written: %w", err)
		}
	}
	s.stored = next
	return nil
}

// leave keeps what was held of a model at the place that it leaves for another.
func (s *stored) leave(model string, before, now Held) {
	kept := slices.DeleteFunc(slices.Clone(s.Elsewhere[model]), func(each Held) bool {
		return samePlace(each.BasePath, now.BasePath) || samePlace(each.BasePath, before.BasePath)
	})
	if !samePlace(before.BasePath, now.BasePath) {
		kept = append(kept, before)
	}
	if s.Elsewhere == nil {
		s.Elsewhere = map[string][]Held{}
	}
	s.Elsewhere[model] = kept[max(0, len(kept)-mostElsewhere):]
}
