package hdfs

import (
	"context"
	"fmt"
	"path"

	"afo/model_server/internal/models"
)

// remote is a version as the remote directory lists it.
type remote struct {
	path     string
	modified int64
}

// list finds the versions of the remote directory, which may be a SavedModel itself.
func (c *Copier) list(ctx context.Context) (map[int64]remote, error) {
	entries, err := c.Files.List(ctx, c.Path, mostVersions)
	if err != nil {
		return nil, err
	}
	found, names := map[int64]remote{}, map[int64]string{}
	for _, each := range entries {
		if each.Name == savedModel && !each.Directory {
			return c.single(ctx, each)
		}
		number, ok := models.VersionOf(each.Name)
		if !ok || !each.Directory {
			continue
		}
		// Of 3 and 003 the name with the fewest zeros, as of directories here.
		if before, twice := names[number]; !twice || len(each.Name) < len(before) {
			names[number] = each.Name
			found[number] = remote{path.Join(c.Path, each.Name), each.Modified}
		}
	}
	return found, nil
}

// single is the SavedModel that the remote directory is, under its step.
func (c *Copier) single(ctx context.Context, of Entry) (map[int64]remote, error) {
	said, err := describeRemote(ctx, c.Files, c.Path)
	if err != nil {
		return nil, err
	}
	if said.parent() != 0 {
		return nil, fmt.Errorf("it holds what changed since version %d, which lies beside it; base_path has to be the directory of both",
			said.parent())
	}
	return map[int64]remote{said.step(): {c.Path, of.Modified}}, nil
}
