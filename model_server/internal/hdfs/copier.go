package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
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

// Copier keeps the versions of one remote directory here. One goroutine runs it; any number asks for Problems.
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
}

// checked is when all of a version was looked at, and was as it is here.
type checked struct {
	modified int64
	at       time.Time
}

// failure is a version that could not be copied.
type failure struct {
	modified int64
	count    int
	until    time.Time
	err      error
}

// remote is a version as the remote directory lists it.
type remote struct {
	path     string
	modified int64
}

// New makes a copier, and the directory that it copies into before Run, or says what is wrong with that.
func New(options Options) (*Copier, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Held == nil {
		options.Held = func() rollout.Held { return rollout.Held{} }
	}
	m := &Copier{
		Options: options, local: local{options.Directory, options.URL},
		checked: map[int64]checked{}, failures: map[int64]failure{},
	}
	return m, m.open()
}

// Problems are what keeps versions from being copied, as of the last look.
func (m *Copier) Problems() []models.Problem {
	if found := m.problems.Load(); found != nil {
		return *found
	}
	return nil
}

// Run copies what comes until the context ends.
func (m *Copier) Run(ctx context.Context) {
	ticker := time.NewTicker(m.Poll)
	defer ticker.Stop()
	for {
		m.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look is one look at the remote directory, unless the last ones failed just now.
func (m *Copier) look(ctx context.Context) {
	if m.Now().Before(m.lookAt) {
		return
	}
	problems, err := m.pass(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		m.looked++
		m.lookAt = m.Now().Add(min(mostPause, models.Pause(m.looked)))
		problems = append(problems, models.Problem{Path: m.URL, Err: err})
	} else {
		m.looked = 0
	}
	m.problems.Store(&problems)
}

// pass copies what the policy wants and is not here, and takes away what is gone or not wanted any more.
func (m *Copier) pass(ctx context.Context) ([]models.Problem, error) {
	if m.held == nil {
		var err error
		if m.held, err = m.lock(); err != nil {
			return nil, err
		}
	}
	if err := m.sweep(m.used, !m.swept); err != nil {
		return nil, err
	}
	m.swept = true
	there, err := m.list(ctx)
	if err != nil {
		return nil, err
	}
	here, err := m.versions()
	if err != nil {
		return nil, err
	}
	held := m.Held()
	m.forget(there, here)
	if err := m.takeAway(here, m.unwanted(there, here, held)); err != nil {
		return nil, err
	}
	copied, problems := m.copyAll(ctx, there, here, m.picked(there, held))
	if copied {
		// Before there is another one, what is gone there is all that can be served.
		err = m.takeAway(here, m.vanished(there, here, held))
	}
	return problems, err
}

// copyAll sees to it that the picked versions are here, and says whether one is.
func (m *Copier) copyAll(ctx context.Context, there map[int64]remote, here map[int64]source, picked []int64) (bool, []models.Problem) {
	one := false
	var problems []models.Problem
	for _, number := range picked {
		err := m.need(ctx, there, here, number, 0)
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

// list finds the versions of the remote directory, which may be a SavedModel itself.
func (m *Copier) list(ctx context.Context) (map[int64]remote, error) {
	entries, err := m.Files.List(ctx, m.Path, mostVersions)
	if err != nil {
		return nil, err
	}
	found, names := map[int64]remote{}, map[int64]string{}
	for _, each := range entries {
		if each.Name == savedModel && !each.Directory {
			return m.single(ctx, each)
		}
		number, ok := models.VersionOf(each.Name)
		if !ok || !each.Directory {
			continue
		}
		// Of 3 and 003 the name with the fewest zeros, as of directories here.
		if before, twice := names[number]; !twice || len(each.Name) < len(before) {
			names[number] = each.Name
			found[number] = remote{path.Join(m.Path, each.Name), each.Modified}
		}
	}
	return found, nil
}

// single is the SavedModel that the remote directory is, under its step.
func (m *Copier) single(ctx context.Context, of Entry) (map[int64]remote, error) {
	said, err := describeRemote(ctx, m.Files, m.Path)
	if err != nil {
		return nil, err
	}
	if said.parent() != 0 {
		return nil, fmt.Errorf("it holds what changed since version %d, which lies beside it; base_path has to be the directory of both",
			said.parent())
	}
	return map[int64]remote{said.step(): {m.Path, of.Modified}}, nil
}

// need sees to it that a version, and those that it stands on, are here.
func (m *Copier) need(ctx context.Context, there map[int64]remote, here map[int64]source, number int64, depth int) error {
	of, ok := there[number]
	if !ok {
		return fmt.Errorf("version %d, on which it stands, is not there; export anew", number)
	}
	if depth > mostDepth {
		return fmt.Errorf("it stands on more than %d versions", mostDepth)
	}
	before, failed := m.failures[number]
	if failed && before.modified == of.modified && m.Now().Before(before.until) {
		return before.err
	}
	err := m.bring(ctx, there, here, number, depth)
	if err == nil || ctx.Err() != nil {
		delete(m.failures, number)
		return err
	}
	return m.note(number, of, err)
}

// bring is need, once it is due.
func (m *Copier) bring(ctx context.Context, there map[int64]remote, here map[int64]source, number int64, depth int) error {
	of := there[number]
	held, isHere := here[number]
	if isHere && m.rests(number, of) {
		return m.bringParent(ctx, there, here, number, depth, m.parent)
	}
	lies, err := readTree(ctx, m.Files, of.path)
	if err != nil {
		return err
	}
	if !lies.whole() {
		return errNotYet{"it is not there whole"}
	}
	if !isHere || held.Fingerprint != lies.fingerprint {
		if m.Standing(number) == Loading {
			return errNotYet{"it is being loaded"}
		}
		remoteParent := func(int64) (int64, error) {
			said, err := describeRemote(ctx, m.Files, of.path)
			return said.parent(), err
		}
		if err := m.bringParent(ctx, there, here, number, depth, remoteParent); err != nil {
			return err
		}
		began := m.Now()
		if err := m.fetch(ctx, m.Files, of.path, number, lies, m.isStep(of, number)); err != nil {
			return err
		}
		here[number] = m.source(number)
		m.Log.Info("copied a version", "version", number, "from", m.URL, "bytes", lies.bytes, "seconds", m.Now().Sub(began).Seconds())
	} else if err := m.bringParent(ctx, there, here, number, depth, m.parent); err != nil {
		return err
	}
	m.checked[number] = checked{of.modified, m.Now()}
	return nil
}

// isStep refuses a copy of the remote SavedModel that is of another step: it was replaced after it was listed.
func (m *Copier) isStep(of remote, number int64) func(string) error {
	return func(copied string) error {
		if of.path != m.Path {
			return nil
		}
		said, err := describeLocal(copied)
		if err == nil && said.step() != number {
			err = errNotYet{"it was replaced while it was copied"}
		}
		return err
	}
}

// bringParent comes before the version that stands on it: a version here can be loaded.
func (m *Copier) bringParent(ctx context.Context, there map[int64]remote, here map[int64]source, number int64, depth int,
	parentOf func(int64) (int64, error)) error {
	parent, err := parentOf(number)
	if err != nil || parent == 0 {
		return err
	}
	if parent < 0 || parent >= number {
		return fmt.Errorf("%s says that its parent is version %d; a parent is older", description, parent)
	}
	return m.need(ctx, there, here, parent, depth+1)
}

// rests says whether a version needs no look: its directory is as it was, and all of it was looked at not long ago.
func (m *Copier) rests(number int64, of remote) bool {
	last, known := m.checked[number]
	pause := calm
	if m.Standing(number) == Failed {
		pause = unrest
	}
	return known && last.modified == of.modified && m.Now().Before(last.at.Add(pause))
}

// note keeps a failure, and returns it. One that only has to be waited for counts as none.
func (m *Copier) note(number int64, of remote, err error) error {
	var notYet errNotYet
	if errors.As(err, &notYet) {
		m.failures[number] = failure{of.modified, 0, m.Now().Add(unrest), err}
		return err
	}
	count := 1
	if before := m.failures[number]; before.modified == of.modified {
		count += before.count
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("it vanished: %w", err)
	}
	m.failures[number] = failure{of.modified, count, m.Now().Add(models.Pause(count)), err}
	return err
}

func (m *Copier) used(number int64) bool {
	standing := m.Standing(number)
	return standing == Loading || standing == Used
}
