package access

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// mostLogged are the bytes of a string in the log: a client chooses most of them.
const mostLogged = 200

// Entry is one request.
type Entry struct {
	Time time.Time `json:"time"`
	// rest or grpc.
	API     string `json:"api"`
	Method  string `json:"method"`
	Model   string `json:"model"`
	Version int64  `json:"version"`
	// HTTP's as digits, or gRPC's by name.
	Code          string  `json:"code"`
	Seconds       float64 `json:"seconds"`
	RequestBytes  int64   `json:"request_bytes"`
	ResponseBytes int64   `json:"response_bytes"`
	Peer          string  `json:"peer"`
	// The name of its token, or of its certificate.
	Who string `json:"who"`
}

type entryKey struct{}

// WithEntry returns a context in which whoever answers a request fills in what it knows of it.
func WithEntry(ctx context.Context, entry *Entry) context.Context {
	return context.WithValue(ctx, entryKey{}, entry)
}

// EntryOf is the entry of a request; one that nobody reads where it has none.
func EntryOf(ctx context.Context) *Entry {
	if entry, ok := ctx.Value(entryKey{}).(*Entry); ok {
		return entry
	}
	return &Entry{}
}

// bounded is an entry that may wait: of what a client wrote it has a little, and keeps nothing else in memory.
func (e Entry) bounded() Entry {
	for _, text := range []*string{&e.API, &e.Method, &e.Model, &e.Code, &e.Peer, &e.Who} {
		*text = cut(*text)
	}
	return e
}

// jsonLine is one line whatever the strings in it hold.
func jsonLine(of any) []byte {
	var to bytes.Buffer
	encoder := json.NewEncoder(&to)
	encoder.SetEscapeHTML(false)
	encoder.Encode(of) //nolint:errcheck // of strings and numbers, in memory
	return to.Bytes()
}

func cut(text string) string {
	end := min(len(text), mostLogged)
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end])
}
