package restapi

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// httpError is an error that HTTP alone has a status for.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

// readBody reads a body of at most `most` bytes, before gzip and after it: TensorFlow Serving takes gzip too, so clients
// may send it, and a small one may become a large body.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	large := &httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes, which limits.request_size allows", most)}
	if r.ContentLength > most {
		return nil, large
	}
	body := io.Reader(http.MaxBytesReader(w, r.Body, most))
	switch encoding := strings.ToLower(strings.Join(r.Header.Values("Content-Encoding"), ",")); encoding {
	case "", "identity":
	case "gzip":
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return nil, unreadable(err, large)
		}
		body = io.LimitReader(unpacked, most+1)
	default:
		w.Header().Set("Accept-Encoding", "gzip")
		return nil, &httpError{http.StatusUnsupportedMediaType, fmt.Sprintf("the body has the Content-Encoding %s; gzip is read, or none", quoted(encoding))}
	}
	var text bytes.Buffer
	// What a client says of its length is not believed beyond this.
	text.Grow(int(min(max(r.ContentLength, 0), 64<<10)) + bytes.MinRead)
	if _, err := text.ReadFrom(body); err != nil {
		return nil, unreadable(err, large)
	}
	if int64(text.Len()) > most {
		return nil, large
	}
	// From here on the deadline would end the connection, and with it the model's work, before its own time does.
	http.NewResponseController(w).SetReadDeadline(time.Time{}) //nolint:errcheck // it was not set either
	return text.Bytes(), nil
}

// limitRead bounds the time of a body, read by a handler or thrown away after it: a client that sends a byte a minute
// would hold a connection for ever. The server itself takes the deadline away before the next request.
func limitRead(w http.ResponseWriter, timeout time.Duration) {
	if timeout > 0 {
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) //nolint:errcheck // not a connection
	}
}

func unreadable(err error, large *httpError) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return large
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &httpError{http.StatusRequestTimeout, "the body did not come within limits.request_timeout"}
	}
	return &httpError{http.StatusBadRequest, fmt.Sprintf("the body cannot be read: %v", err)}
}
