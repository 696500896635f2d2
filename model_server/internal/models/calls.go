package models

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// calls are those under way that steer versions: the registry is closed after them.
type calls struct {
	mutex   sync.Mutex
	ended   bool
	running sync.WaitGroup
}

// begin is false once the registry is being closed.
func (c *calls) begin() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !c.ended {
		c.running.Add(1)
	}
	return !c.ended
}

func (c *calls) end() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.ended = true
}

// PassedOver is a version that a call would have taken, had it been loaded.
type PassedOver struct {
	Version int64  `json:"version"`
	Reason  string `json:"reason"`
}

// Rollback sends requests that name no version to an older one and pins it; 0: the one that answered before the one that
// answers, or where a canary is under way, the one that answers beside it. By is who calls, for the log. It tells which versions could not be
// loaded, so that another one was taken.
func (r *Registry) Rollback(name string, version int64, by string) ([]PassedOver, error) {
	return r.steer(name, call{"rollback", version, by, r.shared.now()}, (*model).rollBack)
}

// Promote sends them to a version and pins it; 0: to the canary under way, or else the newest version, and ends the pin.
// Where canaries are configured, a version that has not answered begins its own, unless full says that it takes all requests.
func (r *Registry) Promote(name string, version int64, full bool, by string) ([]PassedOver, error) {
	if version != 0 && full {
		return nil, status.Errorf(codes.InvalidArgument, "version is %d and full is true; a version that is named takes all requests at once, and is pinned:"+
			" leave one of them out", version)
	}
	do := (*model).promote
	if version == 0 && !full {
		do = (*model).advance
	}
	return r.steer(name, call{"promote", version, by, r.shared.now()}, do)
}

// call is one that steers the versions of a model. Version 0: it names none.
type call struct {
	what    string
	version int64
	by      string
	since   time.Time
}

func (c call) String() string {
	of := ""
	if c.version != 0 {
		of = fmt.Sprintf(" to version %d", c.version)
	}
	return fmt.Sprintf("a %s%s by %s since %s", c.what, of, c.by, c.since.UTC().Format(time.RFC3339))
}

// steer makes a call. It goes on where its caller has gone: a load cannot be interrupted.
func (r *Registry) steer(name string, of call, do func(*model, call) ([]PassedOver, error)) (passed []PassedOver, err error) {
	defer func() {
		if err != nil {
			r.shared.log.Warn("a call failed, and has changed nothing", "model", name, "call", of.what, "version", of.version, "by", of.by, "error", err)
		}
	}()
	m, err := r.find(name)
	if err != nil {
		return nil, err
	}
	if of.version < 0 {
		return nil, status.Errorf(codes.InvalidArgument, "version is %d; allowed: 1 or more, or none", of.version)
	}
	if !r.calls.begin() {
		return nil, status.Error(codes.Unavailable, "the server is stopping")
	}
	defer r.calls.running.Done()
	return do(m, of)
}
