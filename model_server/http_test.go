package main

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
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
