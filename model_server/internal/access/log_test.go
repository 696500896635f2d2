package access

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"afo/model_server/internal/throttle"
)

// patient is a context for what ends at once where nothing is broken.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func linesOf(t *testing.T, content string) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for line := range strings.Lines(content) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines = append(lines, one)
	}
	return lines
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// until waits for what another goroutine does.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come to pass")
		}
	}
}

func TestAnEntryIsOneLineOfBoundedLength(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	log, _ := logger()
	l, err := OpenLog(path, log)
	if err != nil {
		t.Fatal(err)
	}
	l.Write(Entry{Time: time.Unix(0, 0).UTC(), API: "rest", Method: "predict", Model: "a\n\"b\xff", Version: 3, Code: "200",
		Seconds: 0.25, RequestBytes: 5, ResponseBytes: 6, Peer: strings.Repeat("é", 150) + "x", Who: "ann"})
	if err := l.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	lines := linesOf(t, read(t, path))
	if len(lines) != 1 || len(lines[0]) != 11 {
		t.Fatalf("%v", lines)
	}
	for key, want := range map[string]any{"time": "1970-01-01T00:00:00Z", "api": "rest", "method": "predict", "model": "a\n\"b\uFFFD", "version": 3.0,
		"code": "200", "seconds": 0.25, "request_bytes": 5.0, "response_bytes": 6.0, "peer": strings.Repeat("é", 100), "who": "ann"} {
		if lines[0][key] != want {
			t.Errorf("%s: %v, want %v", key, lines[0][key], want)
		}
	}
	l.Write(Entry{})
	if l.Dropped() != 1 || l.Reopen() == nil {
		t.Error("a closed log is written")
	}
}

func TestALogGoesOnInANewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	log, said := logger()
	l, err := OpenLog(path, log)
	if err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal)
	ended := make(chan struct{})
	go func() { l.ReopenOn(signals); close(ended) }()
	l.Write(Entry{Model: "first"})
	until(t, func() bool { return strings.Contains(read(t, path), "first") })
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.Write(Entry{Model: "second"})
	until(t, func() bool { return strings.Contains(read(t, path+".1"), "second") })
	signals <- syscall.SIGHUP
	until(t, func() bool { _, err := os.Stat(path); return err == nil })
	l.Write(Entry{Model: "third"})
	until(t, func() bool { return strings.Contains(read(t, path), "third") })

	// What cannot be opened leaves the old file.
	if err := errors.Join(os.Rename(path, path+".2"), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	signals <- syscall.SIGHUP
	until(t, func() bool { return strings.Contains(said.String(), "goes on in the old file") })
	l.Write(Entry{Model: "fourth"})
	if err := l.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	<-ended
	if !strings.Contains(read(t, path+".2"), "fourth") || len(linesOf(t, read(t, path+".1"))) != 2 {
		t.Errorf("%s %s", read(t, path+".1"), read(t, path+".2"))
	}
}

func TestALogIsAFile(t *testing.T) {
	folder := t.TempDir()
	pipe := filepath.Join(folder, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	log, _ := logger()
	for _, path := range []string{folder, pipe, filepath.Join(folder, "none", "access.log")} {
		if _, err := OpenLog(path, log); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// gate is a file that waits for its reader, or fails.
type gate struct {
	bytes.Buffer
	writing chan struct{}
	results chan func(*gate, []byte) (int, error)
}

func (g *gate) Write(text []byte) (int, error) {
	g.writing <- struct{}{}
	return (<-g.results)(g, text)
}

func (g *gate) Close() error { return nil }

func whole(g *gate, text []byte) (int, error) { return g.Buffer.Write(text) }

func gated() *gate {
	return &gate{writing: make(chan struct{}), results: make(chan func(*gate, []byte) (int, error))}
}

func TestWhatFindsNoRoomIsDroppedAndCounted(t *testing.T) {
	g := gated()
	log, _ := logger()
	l := startLog("file", g, 2, log)
	l.Write(Entry{Model: "0"})
	<-g.writing
	for range 5 {
		l.Write(Entry{Model: "n"}) // none waits
	}
	if l.Dropped() != 3 {
		t.Errorf("%d are dropped", l.Dropped())
	}
	g.results <- whole
	<-g.writing
	g.results <- whole
	if err := l.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	lines := linesOf(t, g.String())
	if len(lines) != 4 || lines[2]["dropped"] != 3.0 {
		t.Errorf("%v", lines)
	}
}

func TestCloseDoesNotWaitForEver(t *testing.T) {
	g := gated()
	log, _ := logger()
	l := startLog("-", g, 2, log)
	l.Write(Entry{})
	<-g.writing
	l.Write(Entry{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(ctx); err == nil || !strings.Contains(err.Error(), "1 entries are not written") {
		t.Error(err)
	}
	g.results <- whole
	<-g.writing
	g.results <- whole
	<-l.closed
}

func TestAWriteThatFailsIsCountedAndSaidOnceAMinute(t *testing.T) {
	g := gated()
	log, said := logger()
	l := startLog("file", g, 2, log)
	step := make(chan time.Time, 1)
	now := time.Unix(1000, 0)
	l.now = func() time.Time { // called by the goroutine that writes, when a write failed
		select {
		case now = <-step:
		default:
		}
		return now
	}
	one := func(model string, result func(*gate, []byte) (int, error)) {
		l.Write(Entry{Model: model})
		<-g.writing
		g.results <- result
	}
	full := func(*gate, []byte) (int, error) { return 0, errors.New("no space left") }
	one("a", func(g *gate, text []byte) (int, error) {
		n, _ := g.Buffer.Write(text[:10])
		return n, errors.New("no space left")
	})
	one("b", full)
	one("c", full)
	one("d", whole)
	until(t, func() bool { return l.Failed() == 3 })
	if strings.Count(said.String(), "cannot be written") != 1 {
		t.Errorf("logged: %s", said)
	}
	step <- now.Add(throttle.Every)
	one("e", full)
	if err := l.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	if logged := said.String(); l.Failed() != 4 || strings.Count(logged, "cannot be written") != 2 || !strings.Contains(logged, "lines=3") {
		t.Errorf("%d failed, logged: %s", l.Failed(), logged)
	}
	// The half line does not spoil the next one.
	if _, rest, _ := strings.Cut(g.String(), "\n"); len(linesOf(t, rest)) != 1 {
		t.Errorf("%q", g.String())
	}
}

func TestRequestsOfHTTPAreLogged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	log, _ := logger()
	l, err := OpenLog(path, log)
	if err != nil {
		t.Fatal(err)
	}
	tokens, _, _ := openTokens(t, "ann "+first)
	handler := l.HTTP(tokens.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			panic(http.ErrAbortHandler)
		}
		io.Copy(io.Discard, r.Body) //nolint:errcheck // in memory
		entry := EntryOf(r.Context())
		entry.Method, entry.Model, entry.Version = "predict", "ctr", 3
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "answer") //nolint:errcheck // in memory
	})))
	for _, path := range []string{"/v1/models/ctr:predict", "/healthz", "/broken"} {
		request := httptest.NewRequest(http.MethodPost, path, strings.NewReader("body"))
		request.Header.Set("Authorization", "Bearer "+first)
		func() {
			defer func() { recover() }() //nolint:errcheck // as a server does
			handler.ServeHTTP(httptest.NewRecorder(), request)
		}()
	}
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/models/ctr?a=secret", nil))
	if err := l.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	lines := linesOf(t, read(t, path))
	if len(lines) != 3 {
		t.Fatalf("%v", lines)
	}
	for i, want := range []map[string]any{
		{"api": "rest", "method": "predict", "model": "ctr", "version": 3.0, "code": "404", "request_bytes": 4.0, "response_bytes": 6.0, "who": "ann", "peer": "192.0.2.1:1234"},
		{"method": "POST /broken", "code": "500", "who": "ann"},
		{"method": "GET /v1/models/ctr", "code": "401", "who": ""},
	} {
		for key, value := range want {
			if lines[i][key] != value {
				t.Errorf("%d: %s: %v, want %v", i, key, lines[i][key], value)
			}
		}
	}
}

func TestWithoutALogNothingIsWritten(t *testing.T) {
	var l *Log
	l.Write(Entry{})
	l.ReopenOn(nil)
	if l.Reopen() != nil || l.Close(t.Context()) != nil || l.HTTP(http.NotFoundHandler()) == nil {
		t.Error("no log is an error")
	}
}
