package models

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Problem is what keeps a version, or all of them, from coming to base_path from elsewhere.
type Problem struct {
	Path string
	// Version is 0 where it is all of them.
	Version int64
	Err     error
}

// elsewhere are the problems of the place that base_path is copied from; none where it is copied from nowhere.
func (m *model) elsewhere() []problem {
	if m.shared.problems == nil {
		return nil
	}
	var found []problem
	for _, each := range m.shared.problems(m.Name) {
		found = append(found, problem{each.Path, each.Version, each.Err})
	}
	return found
}

// scan finds the versions on this machine, the newest first. Of a model that is copied, only copies count.
func (m *model) scan() ([]candidate, []problem, error) {
	found, problems, err := scan(m.Directory())
	if err != nil || m.Copied == "" || m.shared.check == nil {
		return found, problems, err
	}
	var copies []candidate
	for _, each := range found {
		wrong := m.shared.check(m.Name, each.number)
		if filepath.Base(each.path) != fmt.Sprint(each.number) {
			wrong = fmt.Errorf("%s is no directory of a version, where %s is copied to; remove its saved_model.pb", each.path, m.BasePath)
		}
		switch {
		case wrong == nil:
			copies = append(copies, each)
		case !errors.Is(wrong, fs.ErrNotExist): // else it was taken away meanwhile
			problems = append(problems, problem{each.path, each.number, wrong})
		}
	}
	return copies, problems, nil
}
