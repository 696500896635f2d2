package models

import (
	"cmp"
	"fmt"
	"hash"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// mostFiles bounds how many entries of a version are looked at.
const mostFiles = 10_000

// contents tells the files of a SavedModel from others: a hash of their names, sizes and times.
type contents uint64

// contentsOf looks at the files of the SavedModel in a directory, without opening one. Links are followed.
func contentsOf(directory string) contents {
	sum := fnv.New64a()
	left := mostFiles
	walk(directory, savedModel, &left, func(name string, found fs.FileInfo) { add(sum, name, found) })
	for _, name := range []string{"variables", "assets", "assets.extra"} {
		walk(directory, name, &left, func(name string, found fs.FileInfo) { add(sum, name, found) })
	}
	return contents(sum.Sum64())
}

func add(to hash.Hash64, name string, found fs.FileInfo) {
	fmt.Fprintf(to, "%q %v %d %d\n", name, found.Mode().Type(), found.Size(), found.ModTime().UnixNano())
}

// walk goes through name in a directory and what it holds, in the order of names, until left is 0. Links are followed;
// the bound ends loops of them.
func walk(directory, name string, left *int, do func(string, fs.FileInfo)) {
	path := filepath.Join(directory, name)
	if *left == 0 {
		return
	}
	*left--
	found, err := os.Stat(path)
	if err != nil {
		return
	}
	do(name, found)
	if !found.IsDir() {
		return
	}
	for _, entry := range listing(path, *left) {
		walk(directory, filepath.Join(name, entry.Name()), left, do)
	}
}

// listing holds up to most entries of a directory, sorted; none where it cannot be read.
func listing(path string, most int) []fs.DirEntry {
	if most == 0 {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	entries, _ := file.ReadDir(most)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries
}
