// Package access says who may ask and keeps what was asked: tokens, TLS and the access log.
package access

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// checkEvery is how long a change of a file may go unseen: a busy server asks the file system once in that time.
const checkEvery = time.Second

// watched is what files hold, read again when they have changed. What cannot be read leaves what was read before, so
// that a file which is half written, or wrong, closes nobody out.
type watched[T any] struct {
	what  string
	paths []string
	load  func() (T, error)
	log   *slog.Logger
	now   func() time.Time

	value   atomic.Pointer[T]
	checked atomic.Int64 // Unix nanoseconds
	// Held while the files are looked at.
	reading sync.Mutex
	seen    string
}

func watch[T any](what string, paths []string, load func() (T, error), log *slog.Logger) (*watched[T], error) {
	w := &watched[T]{what: what, paths: paths, load: load, log: log, now: time.Now}
	// Before they are read: a change meanwhile is seen at the next check.
	w.seen = identity(paths)
	value, err := load()
	if err != nil {
		return nil, err
	}
	w.value.Store(&value)
	w.checked.Store(w.now().UnixNano())
	return w, nil
}

// get is what the files hold. Whoever comes while another one looks at them has what they held before.
func (w *watched[T]) get() T {
	now := w.now().UnixNano()
	if now-w.checked.Load() >= int64(checkEvery) && w.reading.TryLock() {
		w.check()
		w.checked.Store(now)
		w.reading.Unlock()
	}
	return *w.value.Load()
}

// check reads the files again if they are others than those that were read, or tried, last.
func (w *watched[T]) check() {
	now := identity(w.paths)
	if now == w.seen {
		return
	}
	w.seen = now
	value, err := w.load()
	if err != nil {
		w.log.Error(w.what+" changed and cannot be used; what was read before stays in use", "error", err)
		return
	}
	w.value.Store(&value)
	w.log.Info(w.what + " changed and is read again")
}

// identity differs for files that were written, replaced, or whose rights changed.
func identity(paths []string) string {
	var all strings.Builder
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			fmt.Fprintf(&all, "%v;", err)
			continue
		}
		fmt.Fprintf(&all, "%d %d %v", info.Size(), info.ModTime().UnixNano(), info.Mode())
		if system, ok := info.Sys().(*syscall.Stat_t); ok {
			fmt.Fprintf(&all, " %d %d %d", system.Dev, system.Ino, system.Ctim.Nano())
		}
		all.WriteByte(';')
	}
	return all.String()
}
