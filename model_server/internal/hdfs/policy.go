package hdfs

import (
	"errors"
	"maps"
	"slices"

	"afo/model_server/internal/rollout"
)

// mostPassedOver is for how many versions that fail older ones are copied instead, as the server loads these.
const mostPassedOver = 8

// picked are the versions to be here of those there: those that are held, which nothing newer may come before, then those
// that the policy wants, the newest first.
func (c *Copier) picked(there map[int64]remote, held rollout.Held) []int64 {
	var found []int64
	for _, number := range append(versionsOf(held), c.byPolicy(there, held)...) {
		if _, ok := there[number]; ok && !slices.Contains(found, number) {
			found = append(found, number)
		}
	}
	return found
}

// versionsOf are the versions that the server needs whatever the policy says.
func versionsOf(held rollout.Held) []int64 {
	return slices.DeleteFunc([]int64{held.Pinned, held.Stable}, func(number int64) bool { return number == 0 })
}

// byPolicy are the versions that the policy wants of those there, the newest first. Of the latest ones, those that fail do
// not count, and those that the server would not take up are not meant: unless there are no others, as only a version that
// is here can be promoted.
func (c *Copier) byPolicy(there map[int64]remote, held rollout.Held) []int64 {
	newest := slices.Sorted(maps.Keys(there))
	slices.Reverse(newest)
	switch {
	case c.Policy.All:
		return newest
	case c.Policy.Specific != nil:
		return slices.DeleteFunc(newest, func(number int64) bool { return !slices.Contains(c.Policy.Specific, number) })
	}
	meant := slices.DeleteFunc(slices.Clone(newest), func(number int64) bool { return waits(held, number) })
	if len(meant) > 0 {
		newest = meant
	}
	var found []int64
	left, passedOver := c.Policy.Latest, 0
	for _, number := range newest {
		if left == 0 {
			break
		}
		if c.fails(number) && passedOver < mostPassedOver {
			passedOver++
		} else {
			left--
		}
		found = append(found, number)
	}
	return found
}

// waits says whether a version is taken up by a call alone.
func waits(held rollout.Held, number int64) bool {
	return !held.TakesUp(number)
}

// fails says whether a version cannot be copied, or not be loaded.
func (c *Copier) fails(number int64) bool {
	return c.failures[number].err != nil || c.Standing(number) == Failed
}

// unwanted are the versions here that are not picked, not held, not used, and no parent of one that is. The newest one
// before those of the policy stays, to go back to, and the newest one that waits for a call, to be promoted.
func (c *Copier) unwanted(there map[int64]remote, here map[int64]source, held rollout.Held) []int64 {
	wanted := c.byPolicy(there, held)
	if len(wanted) == 0 {
		return nil
	}
	kept := map[int64]bool{}
	previous, waiting := int64(0), int64(0)
	for number := range here {
		if slices.Contains(wanted, number) || c.used(number) {
			c.keep(kept, here, number)
		}
		if number < wanted[len(wanted)-1] {
			previous = max(previous, number)
		}
		if waits(held, number) {
			waiting = max(waiting, number)
		}
	}
	for _, number := range append(versionsOf(held), previous, waiting) {
		c.keep(kept, here, number)
	}
	return without(here, kept)
}

// vanished are the versions here that are there no more, not held, and no parent of one that is. Where nothing is there,
// nothing vanished: a directory that was emptied takes nothing out of service.
func (c *Copier) vanished(there map[int64]remote, here map[int64]source, held rollout.Held) []int64 {
	kept := map[int64]bool{}
	for _, number := range versionsOf(held) {
		c.keep(kept, here, number)
	}
	for number := range here {
		if _, ok := there[number]; ok || c.Standing(number) == Loading {
			c.keep(kept, here, number)
		}
	}
	return without(here, kept)
}

// keep marks a version, and those that it stands on.
func (c *Copier) keep(kept map[int64]bool, here map[int64]source, number int64) {
	for {
		if _, ok := here[number]; !ok || kept[number] {
			return
		}
		kept[number] = true
		parent, err := c.parent(number)
		if err != nil {
			return // it is damaged, and has no parents that could be told
		}
		number = parent
	}
}

func without(here map[int64]source, kept map[int64]bool) []int64 {
	var found []int64
	for number := range here {
		if !kept[number] {
			found = append(found, number)
		}
	}
	return found
}

// takeAway hides versions, which sweep deletes once they are not used.
func (c *Copier) takeAway(here map[int64]source, numbers []int64) error {
	var failed error
	for _, number := range numbers {
		if err := c.hide(number); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		delete(here, number)
		c.Log.Info("took a version out of the cache", "version", number, "from", c.URL)
	}
	return failed
}

// forget drops what is known of versions that are neither here nor there.
func (c *Copier) forget(there map[int64]remote, here map[int64]source) {
	gone := func(number int64) bool {
		_, isThere := there[number]
		_, isHere := here[number]
		return !isThere && !isHere
	}
	maps.DeleteFunc(c.checked, func(number int64, _ checked) bool { return gone(number) })
	maps.DeleteFunc(c.failures, func(number int64, _ failure) bool { return gone(number) })
}
