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
	"sync"
)

const mostStoreBytes = 1 << 20

// Store keeps what is held of each model in a file. Nobody else writes it.
type Store struct {
	path string // "": in memory alone

	mutex  sync.Mutex
	models map[string]Held
}

// stored is the content of the file.
type stored struct {
	Models map[string]Held `json:"models"`
}

// OpenStore reads the file, where there is one. One that is damaged is an error: a version that an operator rolled back
// from would answer again.
func OpenStore(path string) (*Store, error) {
	s := &Store{path: path, models: map[string]Held{}}
	if path == "" {
		return s, nil
	}
	text, err := readStore(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
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
		if held.Pinned < 0 || held.Stable < 0 || held.Floor < 0 {
			return fmt.Errorf("model %q: pinned is %d, stable %d and floor %d; allowed: 0 or more", name, held.Pinned, held.Stable, held.Floor)
		}
		for _, each := range held.Rejected { // of a file that has no floor yet
			held = held.Leaving(each.Version)
		}
		read.Models[name] = held
	}
	s.models = read.Models
	return nil
}

// Of is what is held of a model. Other: it is of another base_path, and not meant.
func (s *Store) Of(model, basePath string) (held Held, other string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	held, ok := s.models[model]
	if ok && held.BasePath != basePath {
		return Held{BasePath: basePath}, held.BasePath
	}
	held.BasePath = basePath
	return held, ""
}

// Keep holds something else of a model, once it is in the file.
func (s *Store) Keep(model string, held Held) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	next := maps.Clone(s.models)
	next[model] = held
	if s.path != "" {
		text, err := json.MarshalIndent(stored{next}, "", " ")
		if err == nil {
			err = replace(s.path, append(text, '\n'))
		}
		if err != nil {
			return fmt.Errorf("control.state_file cannot be written: %w", err)
		}
	}
	s.models = next
	return nil
}

// replace writes a file whole or not at all, also where the machine fails meanwhile. It is the owner's alone.
func replace(path string, text []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}
