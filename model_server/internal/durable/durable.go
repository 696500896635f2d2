// Package durable puts files and names on the disk, so that they outlast a machine that fails.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace writes a file whole or not at all, also where the machine fails meanwhile. It is the owner's alone.
func Replace(path string, text []byte) (err error) {
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
	return SyncDirectory(filepath.Dir(path))
}

// SyncDirectory puts the names in a directory on the disk.
func SyncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}
