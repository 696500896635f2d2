package main

import (
	"log"
	"log/slog"
	"strings"
	"time"

	"afo/model_server/internal/throttle"
)

// errorLog is what net/http complains to. Strangers decide how often: each connection of plain text to TLS is a line.
type errorLog struct {
	log *slog.Logger
	now func() time.Time
	// kinds are told apart, so that one that strangers cause hides no other.
	kinds []*errorKind
}

type errorKind struct {
	prefix string
	line   throttle.Line
}

func newErrorLog(to *slog.Logger, now func() time.Time) *log.Logger {
	e := &errorLog{log: to, now: now}
	for _, prefix := range []string{"http: TLS handshake error", "http: Accept error", "http: panic serving", ""} {
		e.kinds = append(e.kinds, &errorKind{prefix: prefix})
	}
	return log.New(e, "", 0)
}

// Write implements io.Writer, for one message at a time.
func (e *errorLog) Write(message []byte) (int, error) {
	text := strings.TrimSuffix(string(message), "\n")
	for _, kind := range e.kinds {
		if !strings.HasPrefix(text, kind.prefix) {
			continue
		}
		if untold, told := kind.line.Add(1, e.now()); told {
			e.log.Warn(text, "since_last_line", untold)
		}
		break
	}
	return len(message), nil
}
