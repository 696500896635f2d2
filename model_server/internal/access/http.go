package access

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// HTTP writes an entry for each request that next answers. What asks for no token is asked by machines every second,
// and is not written.
func (l *Log) HTTP(next http.Handler) http.Handler {
	if l == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if NeedsNoToken(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		entry := &Entry{Time: time.Now(), API: "rest", Method: r.Method + " " + r.URL.Path, Peer: r.RemoteAddr, Who: CertificateName(r.TLS)}
		counted := &countedWriter{ResponseWriter: w}
		body := &countedBody{ReadCloser: r.Body}
		r = r.WithContext(WithEntry(r.Context(), entry))
		if r.Body != nil {
			r.Body = body
		}
		// Also where next panics, as a handler does to break a connection off.
		finished := false
		defer func() {
			entry.Code = strconv.Itoa(counted.code(finished))
			entry.Seconds = time.Since(entry.Time).Seconds()
			entry.RequestBytes, entry.ResponseBytes = body.bytes, counted.bytes
			l.Write(*entry)
		}()
		next.ServeHTTP(counted, r)
		finished = true
	})
}

type countedBody struct {
	io.ReadCloser
	bytes int64
}

func (c *countedBody) Read(to []byte) (int, error) {
	n, err := c.ReadCloser.Read(to)
	c.bytes += int64(n)
	return n, err
}

type countedWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (c *countedWriter) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *countedWriter) Write(text []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	n, err := c.ResponseWriter.Write(text)
	c.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (c *countedWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// code is 200 where nothing was written, as the server has it, and 500 where the handler did not come so far.
func (c *countedWriter) code(finished bool) int {
	switch {
	case c.status != 0:
		return c.status
	case finished:
		return http.StatusOK
	}
	return http.StatusInternalServerError
}
