package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"afo/model_server/internal/models"
)

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

// need sees to it that a version, and those that it stands on, are here.
func (c *Copier) need(ctx context.Context, there map[int64]remote, here map[int64]source, number int64, depth int) error {
	of, ok := there[number]
	if !ok {
		return fmt.Errorf("version %d, on which it stands, is not there; export anew", number)
	}
	if depth > mostDepth {
		return fmt.Errorf("it stands on more than %d versions", mostDepth)
	}
	before, failed := c.failures[number]
	if failed && before.modified == of.modified && c.Now().Before(before.until) {
		return before.err
	}
	err := c.bring(ctx, there, here, number, depth)
	if err == nil || ctx.Err() != nil {
		delete(c.failures, number)
		return err
	}
	return c.note(number, of, err)
}

// bring is need, once it is due.
func (c *Copier) bring(ctx context.Context, there map[int64]remote, here map[int64]source, number int64, depth int) error {
	of := there[number]
	held, isHere := here[number]
	if isHere && c.rests(number, of) {
		return c.bringParent(ctx, there, here, number, depth, c.parent)
	}
	lies, err := readTree(ctx, c.Files, of.path)
	if err != nil {
		return err
	}
	if !lies.whole() {
		return errNotYet{"it is not there whole"}
	}
	if !isHere || held.Fingerprint != lies.fingerprint {
		if c.Standing(number) == Loading {
			return errNotYet{"it is being loaded"}
		}
		remoteParent := func(int64) (int64, error) {
			said, err := describeRemote(ctx, c.Files, of.path)
			return said.parent(), err
		}
		if err := c.bringParent(ctx, there, here, number, depth, remoteParent); err != nil {
			return err
		}
		began := c.Now()
		if err := c.fetch(ctx, c.Files, of.path, number, lies, c.isStep(of, number)); err != nil {
			return err
		}
		here[number] = c.source(number)
		c.Log.Info("copied a version", "version", number, "from", c.URL, "bytes", lies.bytes, "seconds", c.Now().Sub(began).Seconds())
	} else if err := c.bringParent(ctx, there, here, number, depth, c.parent); err != nil {
		return err
	}
	c.checked[number] = checked{of.modified, c.Now()}
	return nil
}

// isStep refuses a copy of the remote SavedModel that is of another step: it was replaced after it was listed.
func (c *Copier) isStep(of remote, number int64) func(string) error {
	return func(copied string) error {
		if of.path != c.Path {
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
func (c *Copier) bringParent(ctx context.Context, there map[int64]remote, here map[int64]source, number int64, depth int,
	parentOf func(int64) (int64, error)) error {
	parent, err := parentOf(number)
	if err != nil || parent == 0 {
		return err
	}
	if parent < 0 || parent >= number {
		return fmt.Errorf("%s says that its parent is version %d; a parent is older", description, parent)
	}
	return c.need(ctx, there, here, parent, depth+1)
}

// rests says whether a version needs no look: its directory is as it was, and all of it was looked at not long ago.
func (c *Copier) rests(number int64, of remote) bool {
	last, known := c.checked[number]
	pause := calm
	if c.Standing(number) == Failed {
		pause = unrest
	}
	return known && last.modified == of.modified && c.Now().Before(last.at.Add(pause))
}

// note keeps a failure, and returns it. One that only has to be waited for counts as none.
func (c *Copier) note(number int64, of remote, err error) error {
	var notYet errNotYet
	if errors.As(err, &notYet) {
		c.failures[number] = failure{of.modified, 0, c.Now().Add(unrest), err}
		return err
	}
	count := 1
	if before := c.failures[number]; before.modified == of.modified {
		count += before.count
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("it vanished: %w", err)
	}
	c.failures[number] = failure{of.modified, count, c.Now().Add(models.Pause(count)), err}
	return err
}
