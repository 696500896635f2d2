package hdfs

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"afo/model_server/internal/models"
)

// source is what a version here is a copy of.
type source struct {
	URL         string `json:"url"`
	Fingerprint string `json:"fingerprint"`
	Bytes       int64  `json:"bytes"`
}

const (
	written = "tmp"
	gone    = "gone"
)

// hidden is a version that is being written, or is gone and may be used still.
var hidden = regexp.MustCompile(`^\.([1-9][0-9]{0,18})\.[0-9a-f]{12}\.(tmp|gone)$`)

// CacheName is the directory, in a cache, of what is copied from a URL.
func CacheName(url string) string {
	readable := regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(strings.Trim(strings.TrimPrefix(url, scheme), "/"), "_")
	if len(readable) > 80 {
		readable = readable[len(readable)-80:]
	}
	sum := sha256.Sum256([]byte(url))
	return strings.TrimLeft(readable, ".") + "-" + hex.EncodeToString(sum[:6])
}

// local is the directory here that holds the copies, `3/saved_model.pb`, and hidden ones beside them.
type local struct {
	directory string
	url       string
}

func (l local) version(number int64) string {
	return filepath.Join(l.directory, strconv.FormatInt(number, 10))
}

func (l local) hiddenName(number int64, kind string) string {
	random := make([]byte, 6)
	_, _ = rand.Read(random) // which never fails
	return filepath.Join(l.directory, fmt.Sprintf(".%d.%s.%s", number, hex.EncodeToString(random), kind))
}

// open makes the directory where it is not there, and refuses one that somebody else could put a model into: to load a
// model is to run it.
func (l local) open() error {
	if err := os.MkdirAll(l.directory, 0o700); err != nil {
		return fmt.Errorf("cache_directory: nothing can be written there: %w", err)
	}
	above := filepath.Dir(l.directory)
	of, err := os.Stat(above)
	if err == nil {
		err = checkOwned(above, of, 0)
	}
	if err != nil {
		return fmt.Errorf("cache_directory: %w", err)
	}
	if of, err = os.Lstat(l.directory); err == nil {
		err = checkOwned(l.directory, of, os.Geteuid())
	}
	if err != nil {
		return fmt.Errorf("cache_directory: %w", err)
	}
	return nil
}

// checkOwned refuses what is no directory of this user, or of the other one, or that others may write into.
func checkOwned(path string, of fs.FileInfo, other int) error {
	system, ok := of.Sys().(*syscall.Stat_t)
	switch {
	case !of.IsDir():
		return fmt.Errorf("%s is no directory (%s); remove it", path, of.Mode())
	case !ok || int(system.Uid) != os.Geteuid() && int(system.Uid) != other:
		return fmt.Errorf("%s is another user's, who may put models into it; name a directory of your own", path)
	case of.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s has the mode %#o, with which others may put models into it; chmod go-w %s, or name a directory of your own",
			path, of.Mode().Perm(), path)
	}
	return nil
}

// Holds says why a version here is none that was copied, nil: it was. Any goroutine may ask.
func (l local) Holds(number int64) error {
	of, err := os.Lstat(l.version(number))
	if err != nil {
		return err
	}
	if !of.IsDir() || l.source(number).URL == "" {
		return fmt.Errorf("%s was not copied from %s by a server (its %s does not say so), and is not served; remove it", l.version(number),
			l.url, sourceFile)
	}
	return nil
}

// lock keeps other servers from the directory for as long as this process lives.
func (l local) lock() (*os.File, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(l.directory, ".lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("another server copies into %s; what it copies is served here, and nothing else is copied."+
			" Give this server a cache_directory of its own", l.directory)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// versions are those that are copied whole.
func (l local) versions() (map[int64]source, error) {
	entries, err := os.ReadDir(l.directory)
	if err != nil {
		return nil, err
	}
	found := map[int64]source{}
	for _, entry := range entries {
		if number, ok := models.VersionOf(entry.Name()); ok && entry.Name() == strconv.FormatInt(number, 10) {
			found[number] = l.source(number)
		}
	}
	return found, nil
}

// source is empty where it cannot be read: the version is copied anew.
func (l local) source(number int64) source {
	var found source
	text, err := os.ReadFile(filepath.Join(l.version(number), sourceFile))
	if err != nil || json.Unmarshal(text, &found) != nil || found.URL != l.url {
		return source{}
	}
	return found
}

// parent of a version that is here, 0: it has none.
func (l local) parent(number int64) (int64, error) {
	of, err := describeLocal(l.version(number))
	return of.parent(), err
}

// sweep deletes what is hidden: what a killed server had begun to write, and what is gone and not used any more.
func (l local) sweep(used func(int64) bool, begun bool) error {
	entries, err := os.ReadDir(l.directory)
	if err != nil {
		return err
	}
	var failed error
	for _, entry := range entries {
		match := hidden.FindStringSubmatch(entry.Name())
		if match == nil {
			continue
		}
		number, _ := strconv.ParseInt(match[1], 10, 64)
		if match[2] == written && begun || match[2] == gone && !used(number) {
			failed = errors.Join(failed, os.RemoveAll(filepath.Join(l.directory, entry.Name())))
		}
	}
	return failed
}

// hide takes a version from those that the server finds. One that is used lives on until sweep.
func (l local) hide(number int64) error {
	return os.Rename(l.version(number), l.hiddenName(number, gone))
}

// free are the bytes that this user may still write.
func (l local) free() (int64, error) {
	var found syscall.Statfs_t
	if err := syscall.Statfs(l.directory, &found); err != nil {
		return 0, fmt.Errorf("%s: %w", l.directory, err)
	}
	return int64(found.Bavail) * found.Bsize, nil
}
