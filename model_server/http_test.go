package main

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"afo/model_server/internal/models"
)

func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	ended := make(chan error, 1)
	server := newHTTPServer(slog.New(slog.DiscardHandler), http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(to, strings.Repeat("x", 32<<20)) // more than the kernel takes
		ended <- err
	}), time.Second)
	if server.WriteTimeout <= time.Second {
		t.Fatal(server.WriteTimeout)
	}
	server.WriteTimeout = 50 * time.Millisecond
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, strings.Repeat("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 3)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the whole answer was written")
		}
	case <-time.After(20 * time.Second):
		t.Error("the answer is still being written")
	}
}

// unready is a model of which no version answers.
type unready struct {
	models.Predictor
	helps bool
}

func (unready) Names() []string { return []string{"ctr"} }
func (unready) Signatures(models.Spec) (map[string]models.Signature, int64, error) {
	return nil, 0, errors.New("none")
}
func (u unready) PromoteHelps(string) bool { return u.helps }

func TestWhatKeepsAServerFromBeingReadyNamesThePromoteThatHelps(t *testing.T) {
	none := func(string) []models.Problem { return nil }
	if got := missing(unready{}, none); got != "no version is available of ctr" {
		t.Error(got)
	}
	if got := missing(unready{helps: true}, none); !strings.HasSuffix(got, "`afo serving promote ctr` takes the newest one") {
		t.Error(got)
	}
}
