package hdfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

const (
	description = "assets.extra/afo.json"
	// mostDescription bounds an afo.json: it lists the files that the model was trained on.
	mostDescription = 64 << 20
)

// described is what is read of an afo.json.
type described struct {
	Step   json.Number `json:"step"`
	Parent *int64      `json:"parent"`
}

func (d described) parent() int64 {
	if d.Parent == nil {
		return 0
	}
	return *d.Parent
}

// step is 1 where none is told: versions begin there.
func (d described) step() int64 {
	step, err := d.Step.Int64()
	if err != nil {
		return 1
	}
	return max(1, step)
}

// describe reads an afo.json.
func describe(from io.Reader) (described, error) {
	text, err := io.ReadAll(io.LimitReader(from, mostDescription+1))
	if err != nil {
		return described{}, err
	}
	if len(text) > mostDescription {
		return described{}, fmt.Errorf("%s has more than %d bytes", description, mostDescription)
	}
	var found described
	if err := json.Unmarshal(text, &found); err != nil {
		return described{}, fmt.Errorf("%s is not the JSON that is expected: %w", description, err)
	}
	return found, nil
}

// describeLocal reads the afo.json of a version here; without one, nothing is said.
func describeLocal(directory string) (described, error) {
	return describeFile(os.Open(filepath.Join(directory, filepath.FromSlash(description))))
}

// describeRemote reads the afo.json of a version; without one, nothing is said.
func describeRemote(ctx context.Context, files FileSystem, directory string) (described, error) {
	return describeFile(files.Open(ctx, path.Join(directory, description)))
}

func describeFile(from io.ReadCloser, err error) (described, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return described{}, nil
	}
	if err != nil {
		return described{}, err
	}
	defer from.Close()
	return describe(from)
}
