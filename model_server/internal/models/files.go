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

// opened are the files that a load opens, beside all in variables/ and assets/. What else lies there is not looked at.
var opened = []string{
	savedModel, "saved_model.cpb", "saved_model.pbtxt", "fingerprint.pb",
	filepath.Join("assets.extra", "afo.json"), filepath.Join("assets.extra", "tf_serving_warmup_requests"),
}

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

// checkFiles refuses a version with something else than a file in a file's place: to open a FIFO takes for ever. What
// is not there, or cannot be looked at, is for the load to refuse.
func checkFiles(directory string) error {
	var wrong error
	check := func(name string, found fs.FileInfo) {
		if wrong == nil && !found.Mode().IsRegular() && !found.IsDir() {
			wrong = fmt.Errorf("%s is no regular file (%s); replace it", filepath.Join(directory, name), found.Mode())
		}
	}
	left := mostFiles
	for _, name := range opened {
		if found, err := os.Stat(filepath.Join(directory, name)); err == nil {
			check(name, found)
		}
	}
	for _, name := range []string{"variables", "assets"} {
		walk(directory, name, &left, check)
	}
	return wrong
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
