package models

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

const savedModel = "saved_model.pb"

// identity tells a SavedModel from another one in its place: that of its saved_model.pb.
type identity struct {
	device, inode uint64
	modified      int64
	size          int64
}

// sameFile is also true of a file that has changed in its place.
func (i identity) sameFile(other identity) bool {
	return i.device == other.device && i.inode == other.inode
}

// candidate is a version found on disk.
type candidate struct {
	number   int64
	path     string
	identity identity
}

// exported is when the SavedModel was written.
func (c candidate) exported() time.Time { return time.Unix(0, c.identity.modified) }

// problem is an entry of base_path that is passed over.
type problem struct {
	path string
	// number is the version that would be there; 0: there is one beside it.
	number int64
	err    error
}

// scan finds the versions at base, the newest first: base is a SavedModel, or holds some in directories whose names
// are numbers from 1 on. A directory without saved_model.pb is not there yet, and other names are not meant. An entry
// that cannot be read is a problem of its own: the others count.
func scan(base string) ([]candidate, []problem, error) {
	only, err := single(base)
	if err != nil {
		return nil, nil, err
	}
	if only != nil {
		return []candidate{*only}, nil, nil
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, nil, err
	}
	var found []candidate
	var problems []problem
	for _, entry := range numbered(entries) {
		path := filepath.Join(base, entry.name)
		each, err := read(path, entry.number)
		switch {
		case err != nil:
			problems = append(problems, problem{path, entry.number, err})
		case each == nil:
		case len(found) > 0 && found[len(found)-1].number == entry.number:
			taken := found[len(found)-1].path
			both := fmt.Errorf("it is version %d as well as %s, which is taken; remove one", entry.number, taken)
			problems = append(problems, problem{path, 0, both})
		default:
			found = append(found, *each)
		}
	}
	return found, problems, nil
}

// numberedEntry is a name that is a number.
type numberedEntry struct {
	number int64
	name   string
}

// numbered sorts the newest first, and of one number (3 and 003) the name with the fewest zeros before it.
func numbered(entries []fs.DirEntry) []numberedEntry {
	var found []numberedEntry
	for _, entry := range entries {
		if number, ok := VersionOf(entry.Name()); ok {
			found = append(found, numberedEntry{number, entry.Name()})
		}
	}
	slices.SortFunc(found, func(a, b numberedEntry) int {
		return cmp.Or(cmp.Compare(b.number, a.number), cmp.Compare(len(a.name), len(b.name)))
	})
	return found
}

// VersionOf is the version that a directory's name is, with zeros before it or without.
func VersionOf(name string) (int64, bool) {
	for _, each := range []byte(name) {
		if each < '0' || each > '9' {
			return 0, false
		}
	}
	number, err := strconv.ParseInt(name, 10, 64)
	return number, err == nil && number > 0
}

// read is the SavedModel in a directory, nil where there is none. Links are followed now, so that one that is pointed
// elsewhere while the model is loaded does not mix two.
func read(directory string, number int64) (*candidate, error) {
	path, err := filepath.EvalSymlinks(directory)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := os.Stat(filepath.Join(path, savedModel))
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &candidate{number, path, identityOf(found)}, nil
}

func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func identityOf(found fs.FileInfo) identity {
	of := identity{modified: found.ModTime().UnixNano(), size: found.Size()}
	if system, ok := found.Sys().(*syscall.Stat_t); ok {
		of.device, of.inode = system.Dev, system.Ino
	}
	return of
}

// single is the SavedModel at base itself, nil where base is none. Its version is the step that its export says.
func single(base string) (*candidate, error) {
	found, err := read(base, 1)
	if found == nil || err != nil {
		return nil, err
	}
	text, err := description(found.path)
	if err != nil {
		return nil, err
	}
	// One that is wrong is logged when the version is loaded.
	var export struct {
		Step json.RawMessage `json:"step"`
	}
	step := int64(0)
	if json.Unmarshal(text, &export) == nil {
		step, _ = stepOf(export.Step)
	}
	found.number = max(1, step)
	// An export may have replaced the directory meanwhile: then the step is of another model.
	again, err := read(base, 1)
	if err != nil || again == nil || again.identity != found.identity {
		return nil, fmt.Errorf("%s is being replaced", base)
	}
	return found, nil
}

// description is the text of the afo.json of a SavedModel, nil where there is none. What is no file is for checkFiles.
func description(directory string) ([]byte, error) {
	path := filepath.Join(directory, "assets.extra", "afo.json")
	found, err := os.Stat(path)
	if absent(err) || err == nil && !found.Mode().IsRegular() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
