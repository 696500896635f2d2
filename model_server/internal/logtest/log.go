// Package logtest has a log that tests read while it is written.
package logtest

import (
	"strings"
	"sync"
)

// Log keeps what is written, for any number of goroutines. The zero value is ready.
type Log struct {
	mutex sync.Mutex
	text  strings.Builder
}

// Write implements io.Writer.
func (l *Log) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(text)
}

// String is all of it so far.
func (l *Log) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}
