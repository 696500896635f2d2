package main

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"afo/model_server/internal/throttle"
)

func TestPlainTextToTLSDoesNotFillTheLog(t *testing.T) {
	var said bytes.Buffer
	server := httptest.NewUnstartedServer(nil)
	server.Config = newHTTPServer(slog.New(slog.NewTextHandler(&said, nil)), http.NotFoundHandler(), time.Second)
	server.StartTLS()
	defer server.Close()
	for range 20 {
		client, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(client, "no TLS\n"); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, client) // it is closed once that is logged
		client.Close()
	}
	server.Close()
	if lines := said.String(); strings.Count(lines, "\n") != 1 || !strings.Contains(lines, "TLS handshake error") {
		t.Error(lines)
	}
}

func TestComplaintsOfOneKindHideNoOthers(t *testing.T) {
	var said bytes.Buffer
	now := time.Unix(1000, 0)
	log := newErrorLog(slog.New(slog.NewTextHandler(&said, nil)), func() time.Time { return now })
	for range 3 {
		for _, message := range []string{
			"http: TLS handshake error from 192.0.2.1:1: x", "http: panic serving 192.0.2.1:1: y", "http: Accept error: z; retrying in 1s", "http2: w",
		} {
			log.Print(message)
		}
	}
	if lines := said.String(); strings.Count(lines, "since_last_line=1") != 4 || strings.Count(lines, "\n") != 4 {
		t.Error(lines)
	}
	now = now.Add(throttle.Every)
	log.Print("http: TLS handshake error from 192.0.2.1:2: x")
	if lines := said.String(); strings.Count(lines, "since_last_line=3") != 1 {
		t.Error(lines)
	}
}
