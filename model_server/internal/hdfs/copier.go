package hdfs

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"afo/model_server/internal/config"
	"afo/model_server/internal/models"
	"afo/model_server/internal/rollout"
)

// Standing is what became of a version that is here.
type Standing int

// A version is used while it is loaded, and while requests may need it.
const (
	Unused Standing = iota
	Loading
	Used
	Failed
)

const (
	// mostVersions bounds the entries of the remote directory.
	mostVersions = 10_000
	// mostPause is between two looks at a cluster that does not answer.
	mostPause = time.Minute
	// All that a version holds is looked at again after calm, and after unrest where it is not there or not loaded.
	calm   = time.Minute
	unrest = 5 * time.Second
)

// Options say what is copied, and where to.
type Options struct {
	// URL is what messages call the remote directory, Path is where it is.
	URL, Path string
	Directory string
	Policy    config.Versions
	Files     FileSystem
	Poll      time.Duration
	Log       *slog.Logger
	// Standing of a version, as the server has it.
	Standing func(int64) Standing
	// Held is what calls and canaries have decided; nil: nothing.
	Held func() rollout.Held
	// Now is a clock; nil: the time.
	Now func() time.Time
}

// Copier keeps the versions of one remote directory here. One goroutine runs it; any number asks for Problems and There.
type Copier struct {
	Options
	local
	held     *os.File
	swept    bool
	looked   int // failures in a row
	lookAt   time.Time
	checked  map[int64]checked
	failures map[int64]failure
	problems atomic.Pointer[[]models.Problem]
	there    atomic.Pointer[[]int64]
}

// New makes a copier, and the directory that it copies into before Run, or says what is wrong with that.
func New(options Options) (*Copier, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Held == nil {
		options.Held = func() rollout.Held { return rollout.Held{} }
	}
	c := &Copier{
		Options: options, local: local{options.Directory, options.URL},
		checked: map[int64]checked{}, failures: map[int64]failure{},
	}
	return c, c.open()
}

// Problems are what keeps versions from being copied, as of the last look.
func (c *Copier) Problems() []models.Problem {
	if found := c.problems.Load(); found != nil {
		return *found
	}
	return nil
}

// There are the versions of the remote directory, as of the last look that could list it.
func (c *Copier) There() []int64 {
	if listed := c.there.Load(); listed != nil {
		return *listed
	}
	return nil
}

// Run copies what comes until the context ends.
func (c *Copier) Run(ctx context.Context) {
	ticker := time.NewTicker(c.Poll)
	defer ticker.Stop()
	for {
		c.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look is one look at the remote directory, unless the last ones failed just now.
func (c *Copier) look(ctx context.Context) {
	if c.Now().Before(c.lookAt) {
		return
	}
	problems, err := c.pass(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		c.looked++
		c.lookAt = c.Now().Add(min(mostPause, models.Pause(c.looked)))
		problems = append(problems, models.Problem{Path: c.URL, Err: err})
	} else {
		c.looked = 0
	}
	c.problems.Store(&problems)
}

// pass copies what the policy wants and is not here, and takes away what is gone or not wanted any more.
func (c *Copier) pass(ctx context.Context) ([]models.Problem, error) {
	if c.held == nil {
		var err error
		if c.held, err = c.lock(); err != nil {
			return nil, err
		}
	}
	if err := c.sweep(c.used, !c.swept); err != nil {
		return nil, err
	}
	c.swept = true
	there, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	listed := slices.Collect(maps.Keys(there))
	c.there.Store(&listed)
	here, err := c.versions()
	if err != nil {
		return nil, err
	}
	held := c.Held()
	c.forget(there, here)
	if err := c.takeAway(here, c.unwanted(there, here, held)); err != nil {
		return nil, err
	}
	copied, problems := c.copyAll(ctx, there, here, c.picked(there, held))
	if copied {
		// Before there is another one, what is gone there is all that can be served.
		err = c.takeAway(here, c.vanished(there, here, held))
	}
	return problems, err
}

// copyAll sees to it that the picked versions are here, and says whether one is.
func (c *Copier) copyAll(ctx context.Context, there map[int64]remote, here map[int64]source, picked []int64) (bool, []models.Problem) {
	one := false
	var problems []models.Problem
	for _, number := range picked {
		err := c.need(ctx, there, here, number, 0)
		var notYet errNotYet
		switch {
		case ctx.Err() != nil:
			return false, nil
		case err == nil:
			one = true
		case !errors.As(err, &notYet):
			problems = append(problems, models.Problem{Path: there[number].path, Version: number, Err: err})
		}
	}
	return one, problems
}

func (c *Copier) used(number int64) bool {
	standing := c.Standing(number)
	return standing == Loading || standing == Used
}
