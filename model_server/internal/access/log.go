package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"afo/model_server/internal/throttle"
)

const (
	// mostQueued entries wait to be written; 4096 are a second of a busy server.
	mostQueued = 4096
	// mostBuffered bytes are written at once.
	mostBuffered = 64 << 10
)

// Log writes entries as lines of JSON. It never keeps a request waiting, nor fails one: an entry for which there is no
// room is dropped, and one that cannot be written is lost; both are counted, and the log says how many it dropped. Nil:
// nothing is written.
type Log struct {
	path string // "-": standard output
	log  *slog.Logger
	now  func() time.Time

	queue   chan Entry
	reopen  chan chan error
	closing chan struct{}
	closed  chan struct{}
	stopped atomic.Bool

	dropped, allDropped, allFailed atomic.Int64

	// Of the goroutine that writes.
	file      io.WriteCloser
	buffer    []byte
	lines     int64 // in the buffer
	torn      bool  // the file ends within a line
	complaint throttle.Line
}

// OpenLog appends to a file, or writes to standard output where its path is "-".
func OpenLog(path string, log *slog.Logger) (*Log, error) {
	file, err := openLog(path)
	if err != nil {
		return nil, err
	}
	return startLog(path, file, mostQueued, log), nil
}

func startLog(path string, file io.WriteCloser, queued int, log *slog.Logger) *Log {
	l := &Log{path: path, file: file, log: log, now: time.Now, queue: make(chan Entry, queued),
		reopen: make(chan chan error), closing: make(chan struct{}), closed: make(chan struct{})}
	go l.run()
	return l
}

type standardOutput struct{ io.Writer }

func (standardOutput) Close() error { return nil }

func openLog(path string) (io.WriteCloser, error) {
	if path == "-" {
		return standardOutput{os.Stdout}, nil
	}
	// To open a pipe waits for its reader.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && info.Mode()&os.ModeCharDevice == 0 {
		return nil, fmt.Errorf("access_log: %s is not a file; it is a path, or - for standard output", path)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, fmt.Errorf("access_log: %w", err)
	}
	return file, nil
}

// Write puts an entry into the queue, or drops it.
func (l *Log) Write(entry Entry) {
	if l == nil {
		return
	}
	if !l.stopped.Load() {
		select {
		case l.queue <- entry.bounded():
			return
		default:
		}
	}
	l.dropped.Add(1)
	l.allDropped.Add(1)
}

// Dropped are the entries for which there was no room, Failed those that could not be written.
func (l *Log) Dropped() int64 { return l.allDropped.Load() }
func (l *Log) Failed() int64  { return l.allFailed.Load() }

// Reopen goes on in a new file at the path, after the old one was moved away. Where that cannot be opened it goes on in
// the old one.
func (l *Log) Reopen() error {
	if l == nil || l.path == "-" {
		return nil
	}
	done := make(chan error, 1)
	select {
	case l.reopen <- done:
		return <-done
	case <-l.closed:
		return errors.New("access_log: is closed")
	}
}

// ReopenOn does so at every signal, until the log is closed.
func (l *Log) ReopenOn(signals <-chan os.Signal) {
	if l == nil {
		return
	}
	for {
		select {
		case <-signals:
			if err := l.Reopen(); err != nil {
				l.log.Error("the access log goes on in the old file", "error", err)
			}
		case <-l.closing:
			return
		}
	}
}

// Close writes what is queued, for as long as ctx lasts: standard output may be a pipe that nobody reads. It is called
// once, after the last Write.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.stopped.Store(true)
	close(l.closing)
	select {
	case <-l.closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("access_log: %d entries are not written: %w", len(l.queue), ctx.Err())
	}
}

func (l *Log) run() {
	defer close(l.closed)
	for {
		select {
		case entry := <-l.queue:
			l.take(entry)
		case done := <-l.reopen:
			done <- l.replace()
		case <-l.closing:
			l.drain()
			l.addDropped()
			l.flush()
			l.file.Close() //nolint:errcheck // nothing is left in it
			return
		}
	}
}

// take adds a line, and writes where no other one waits.
func (l *Log) take(entry Entry) {
	l.add(jsonLine(entry))
	l.addDropped()
	if len(l.queue) == 0 || len(l.buffer) >= mostBuffered {
		l.flush()
	}
}

// addDropped says how many entries found no room, now that there is some.
func (l *Log) addDropped() {
	if dropped := l.dropped.Swap(0); dropped > 0 {
		l.add(jsonLine(struct {
			Time    time.Time `json:"time"`
			Dropped int64     `json:"dropped"`
		}{l.now(), dropped}))
	}
}

func (l *Log) add(line []byte) {
	l.buffer = append(l.buffer, line...)
	l.lines++
}

func (l *Log) drain() {
	for {
		select {
		case entry := <-l.queue:
			l.take(entry)
		default:
			return
		}
	}
}

func (l *Log) flush() {
	if len(l.buffer) == 0 {
		return
	}
	text := l.buffer
	if l.torn {
		text = append([]byte{'\n'}, text...)
	}
	n, err := l.file.Write(text)
	if n > 0 {
		l.torn = text[n-1] != '\n'
	}
	if err != nil {
		l.fail(err)
	}
	l.buffer, l.lines = l.buffer[:0], 0
}

// fail counts the lines of a write as lost, though some of them may be there.
func (l *Log) fail(err error) {
	l.allFailed.Add(l.lines)
	if failed, told := l.complaint.Add(l.lines, l.now()); told {
		l.log.Error("the access log cannot be written; requests are answered all the same", "lines", failed, "error", err)
	}
}

func (l *Log) replace() error {
	l.flush()
	file, err := openLog(l.path)
	if err != nil {
		return err
	}
	l.file.Close() //nolint:errcheck // all was written, or counted as lost
	l.file, l.torn = file, false
	return nil
}
