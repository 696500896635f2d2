package connections

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"afo/model_server/internal/logtest"
)

// bounded takes connections and gives them to whoever reads the channel.
func bounded(t *testing.T, most int) (*Bounded, <-chan net.Conn, *logtest.Log) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := &logtest.Log{}
	b := Bound(listener, most, slog.New(slog.NewTextHandler(said, nil)))
	taken := make(chan net.Conn)
	go func() {
		defer close(taken)
		for {
			next, err := b.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			taken <- next
		}
	}()
	t.Cleanup(func() { _ = b.Close() })
	return b, taken, said
}

func dialled(t *testing.T, to *Bounded) net.Conn {
	t.Helper()
	opened, err := net.Dial("tcp", to.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

func TestFurtherConnectionsAreClosedAtOnce(t *testing.T) {
	b, taken, said := bounded(t, 2)
	dialled(t, b)
	first := <-taken
	dialled(t, b)
	<-taken
	for range 3 {
		if n, err := dialled(t, b).Read(make([]byte, 1)); err == nil {
			t.Fatalf("a third connection was sent %d bytes", n)
		}
	}
	if b.Open() != 2 || b.Refused() != 3 {
		t.Errorf("%d open, %d refused", b.Open(), b.Refused())
	}
	if lines := said.String(); strings.Count(lines, "connections are refused") != 1 || !strings.Contains(lines, "limit=2") {
		t.Error(lines)
	}
	for range 2 { // what serves a connection may close it more than once
		_ = first.Close()
	}
	last := dialled(t, b)
	next := <-taken
	if _, err := next.Write([]byte("x")); err != nil || b.Open() != 2 {
		t.Error(err, b.Open())
	}
	if _, err := io.ReadFull(last, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}
