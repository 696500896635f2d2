// Package connections bounds how many connections the clients of a listener hold open.
package connections

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"afo/model_server/internal/throttle"
)

// Bounded is a listener that takes a number of connections at once, and closes each further one. Left unaccepted they would
// pile up in the kernel, and their clients wait without a word.
type Bounded struct {
	net.Listener
	most          int64
	log           *slog.Logger
	open, refused atomic.Int64
	// complaint is throttled: whoever opens connections decides how many are refused.
	complaint throttle.Line
}

// Bound takes most connections of a listener at once.
func Bound(listener net.Listener, most int, log *slog.Logger) *Bounded {
	return &Bounded{Listener: listener, most: int64(most), log: log}
}

// Accept implements net.Listener. One goroutine calls it.
func (b *Bounded) Accept() (net.Conn, error) {
	for {
		taken, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.open.Add(1) <= b.most {
			return &connection{Conn: taken, left: sync.OnceFunc(func() { b.open.Add(-1) })}, nil
		}
		b.open.Add(-1)
		b.refuse(taken)
	}
}

func (b *Bounded) refuse(taken net.Conn) {
	// Last, so that whoever sees its end finds it counted and told.
	defer taken.Close() //nolint:errcheck // nothing was sent
	refused := b.refused.Add(1)
	if _, told := b.complaint.Add(1, time.Now()); told {
		b.log.Warn("connections are refused: limits.connections are open", "address", b.Addr().String(),
			"limit", b.most, "from", taken.RemoteAddr().String(), "refused_so_far", refused)
	}
}

// Open is how many connections are open.
func (b *Bounded) Open() int64 { return b.open.Load() }

// Refused is how many were closed at once. It never falls.
func (b *Bounded) Refused() int64 { return b.refused.Load() }

// connection counts until it is closed, which may happen more than once.
type connection struct {
	net.Conn
	left func()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.left()
	return c.Conn.Close()
}
