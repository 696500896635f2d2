package hdfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
)

const (
	savedModel = "saved_model.pb"
	// sourceFile in a version here says what it is a copy of. A file of this name there is not copied.
	sourceFile = ".afo-source.json"
	// mostEntries is of one version, mostDepth its directories in each other.
	mostEntries = 10_000
	mostDepth   = 32
	// copying ends the name of a file that `hdfs dfs -put` has not written whole.
	copying = "._COPYING_"
)

// file is one entry of a tree, its path relative to the version.
type file struct {
	Entry
	path string
}

// tree is a version as it lies in HDFS, a directory before what it holds.
type tree struct {
	files []file
	bytes int64
	// fingerprint is equal for equal names, sizes and times.
	fingerprint string
	// partial: a file is being written by `hdfs dfs -put`.
	partial bool
}

// readTree lists all that a version holds.
func readTree(ctx context.Context, files FileSystem, directory string) (tree, error) {
	var found tree
	if err := found.add(ctx, files, directory, "", 0); err != nil {
		return tree{}, err
	}
	sum := sha256.New()
	for _, each := range found.files {
		modified := each.Modified
		if each.Directory {
			modified = 0 // it is that of what the directory holds, which is here
		}
		fmt.Fprintf(sum, "%q %d %d %v\n", each.path, each.Size, modified, each.Directory)
	}
	found.fingerprint = hex.EncodeToString(sum.Sum(nil))
	return found, nil
}

func (t *tree) add(ctx context.Context, files FileSystem, root, under string, depth int) error {
	if depth > mostDepth {
		return fmt.Errorf("%s is more than %d directories deep", path.Join(root, under), mostDepth)
	}
	entries, err := files.List(ctx, path.Join(root, under), mostEntries-len(t.files))
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	for _, each := range entries {
		if err := checkName(each.Name); err != nil {
			return fmt.Errorf("%s: %w", path.Join(root, under), err)
		}
		if under == "" && each.Name == sourceFile {
			continue
		}
		at := path.Join(under, each.Name)
		if each.Refused != "" {
			return fmt.Errorf("%s %s", path.Join(root, at), each.Refused)
		}
		t.files = append(t.files, file{each, at})
		t.partial = t.partial || strings.HasSuffix(each.Name, copying)
		if each.Directory {
			if err := t.add(ctx, files, root, at, depth+1); err != nil {
				return err
			}
			continue
		}
		if each.Size < 0 {
			return fmt.Errorf("%s has %d bytes by HDFS", path.Join(root, at), each.Size)
		}
		t.bytes += each.Size
	}
	return nil
}

// whole says whether it is a SavedModel that nobody is writing, as far as can be seen.
func (t tree) whole() bool {
	return !t.partial && slices.ContainsFunc(t.files, func(of file) bool { return of.path == savedModel && !of.Directory })
}
