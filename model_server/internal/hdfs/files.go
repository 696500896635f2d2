// Package hdfs copies the versions of a model from HDFS to a directory of this machine's disk, where the server finds
// them as it finds any others.
package hdfs

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// Entry is what a directory holds.
type Entry struct {
	Name string
	Size int64
	// Modified is in milliseconds since 1970, as HDFS has it.
	Modified  int64
	Directory bool
	// Refused says why it cannot be copied; "": it can.
	Refused string
}

// FileSystem is what is read of HDFS. Every call ends in bounded time. One goroutine calls at a time.
type FileSystem interface {
	// List holds the entries of a directory. fs.ErrNotExist: there is none. More than most are an error.
	List(ctx context.Context, directory string, most int) ([]Entry, error)
	Open(ctx context.Context, file string) (io.ReadCloser, error)
}

// checkName refuses a name that would leave the directory it is in.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("an entry has the name %q, which no file can have here; remove it", name)
	}
	return nil
}
