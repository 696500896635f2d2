package hdfs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"afo/model_server/internal/durable"

	"golang.org/x/sys/unix"
)

const (
	// reserve is left free on the disk.
	reserve = 64 << 20
	// A version may take leastTime, and a second more for each slowestRate bytes.
	leastTime   = 5 * time.Minute
	slowestRate = 1 << 20
	copyBytes   = 1 << 20
)

// errNotYet is of a version that is not there yet, or changed while it was copied: it is looked at again soon.
type errNotYet struct{ why string }

func (e errNotYet) Error() string { return e.why }

// fetch copies a version and puts it in its place, once check has nothing against the copy. With an error nothing of it stays.
func (l local) fetch(ctx context.Context, files FileSystem, from string, number int64, of tree, check func(string) error) error {
	if err := l.checkRoom(of); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, leastTime+time.Duration(of.bytes/slowestRate)*time.Second,
		fmt.Errorf("it took over %v and a second for each MiB; it is tried again", leastTime))
	defer cancel()
	beside := l.hiddenName(number, written)
	defer os.RemoveAll(beside) // which is there no more, or holds what was replaced, once it is in its place
	if err := l.copyTree(ctx, files, from, beside, of); err != nil {
		return err
	}
	again, err := readTree(ctx, files, from)
	if err != nil {
		return err
	}
	if again.fingerprint != of.fingerprint {
		return errNotYet{"it changed while it was copied"}
	}
	if err := check(beside); err != nil {
		return err
	}
	return l.place(beside, number)
}

func (l local) checkRoom(of tree) error {
	free, err := l.free()
	if err != nil {
		return err
	}
	if of.bytes > free-reserve {
		return fmt.Errorf("it has %s, and %s has %s free, of which %s are left alone; free space, or name another cache_directory",
			size(of.bytes), l.directory, size(free), size(reserve))
	}
	return nil
}

func size(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// copyTree writes a version to a directory, all of it on the disk when it returns.
func (l local) copyTree(ctx context.Context, files FileSystem, from, to string, of tree) error {
	text, err := json.Marshal(source{URL: l.url, Fingerprint: of.fingerprint, Bytes: of.bytes})
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	buffer := make([]byte, copyBytes)
	directories := []string{to}
	for _, each := range of.files {
		at := filepath.Join(to, filepath.FromSlash(each.path))
		if each.Directory {
			directories = append(directories, at)
			err = os.Mkdir(at, 0o700)
		} else {
			err = copyFile(ctx, files, path.Join(from, each.path), at, each.Size, buffer)
		}
		if err != nil {
			return err
		}
	}
	if err := writeFile(filepath.Join(to, sourceFile), func(file *os.File) error { _, err := file.Write(text); return err }); err != nil {
		return err
	}
	for _, each := range directories {
		if err := durable.SyncDirectory(each); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(ctx context.Context, files FileSystem, from, to string, expected int64, buffer []byte) error {
	input, err := files.Open(ctx, from)
	if err != nil {
		return err
	}
	defer input.Close()
	return writeFile(to, func(file *os.File) error {
		var copied int64
		for {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			read, err := input.Read(buffer)
			if copied += int64(read); copied > expected {
				return errNotYet{fmt.Sprintf("%s has grown while it was copied", from)}
			}
			if _, failed := file.Write(buffer[:read]); failed != nil {
				return failed
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				return fmt.Errorf("%s: %w", from, err)
			}
		}
		if copied != expected {
			return fmt.Errorf("%s ended after %d of %d bytes", from, copied, expected)
		}
		return nil
	})
}

// writeFile makes a file, whose content is on the disk when it returns.
func writeFile(name string, write func(*os.File) error) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := write(file); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return file.Close()
}

// place gives a version its name, at once where one has it already: that one is left under the name beside.
func (l local) place(beside string, number int64) error {
	at := l.version(number)
	_, err := os.Lstat(at)
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, beside, unix.AT_FDCWD, at, unix.RENAME_EXCHANGE)
		if err == nil {
			return durable.SyncDirectory(l.directory)
		}
		if err != unix.EINVAL && err != unix.ENOSYS {
			return &os.LinkError{Op: "exchange", Old: beside, New: at, Err: err}
		}
		// The file system cannot do that: for a moment there is none.
		if err := l.hide(number); err != nil {
			return err
		}
	} else if !os.IsNotExist(err) {
		return err
	}
	if err := os.Rename(beside, at); err != nil {
		return err
	}
	return durable.SyncDirectory(l.directory)
}
