package hdfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestACacheThatOthersMayWriteIsRefused(t *testing.T) {
	for says, spoil := range map[string]func(cache, of string) error{
		"":                                     func(string, string) error { return nil },
		"has the mode 0777":                    func(cache, _ string) error { return os.Chmod(cache, 0o777) },
		"has the mode 0720":                    func(_, of string) error { return os.Chmod(of, 0o720) },
		"is no directory (L":                   func(cache, of string) error { return errors.Join(os.Rename(of, of+"x"), os.Symlink(of+"x", of)) },
		"cache is another user's":              func(cache, _ string) error { return os.Chown(cache, 65534, -1) },
		"ctr-1 is another user's, who may put": func(_, of string) error { return os.Chown(of, 65534, -1) },
	} {
		if strings.Contains(says, "another user") && os.Geteuid() != 0 {
			continue // only root can give a directory away
		}
		cache := filepath.Join(t.TempDir(), "cache")
		of := filepath.Join(cache, "ctr-1")
		if err := errors.Join(os.MkdirAll(of, 0o700), spoil(cache, of)); err != nil {
			t.Fatal(err)
		}
		_, err := New(Options{Directory: of})
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%v; expected %q", err, says)
		}
	}
}

func TestWhatWasNotCopiedIsNoVersionAndIsReplacedByACopy(t *testing.T) {
	m := newCopied(t, latest)
	m.put(4, 0)
	elsewhere := t.TempDir()
	m.must(os.WriteFile(filepath.Join(elsewhere, savedModel), []byte("another graph"), 0o600))
	m.must(os.Symlink(elsewhere, m.version(4)))
	m.must(os.MkdirAll(m.version(9), 0o700))
	m.must(os.WriteFile(filepath.Join(m.version(9), savedModel), nil, 0o600))
	m.must(os.WriteFile(filepath.Join(m.version(9), sourceFile), []byte(`{"url": "hdfs://ns/other"}`), 0o600))
	for _, number := range []int64{4, 9} {
		if err := m.Holds(number); err == nil || !strings.Contains(err.Error(), "was not copied from hdfs://ns/models/ctr") {
			t.Error(err)
		}
	}
	m.pass()
	if err := m.Holds(4); err != nil {
		t.Error(err)
	}
	m.pass()
	m.is("4")
	if _, err := os.Stat(filepath.Join(elsewhere, savedModel)); err != nil {
		t.Error(err)
	}
}
