package concurrency

// lane is the requests of one model.
type lane struct {
	model string
	// share is how many of the slots are this lane's when all lanes have requests. Others may hold them meanwhile,
	// unless they are reserved.
	share, running, waiting int
	reserved                bool
}

// book says who holds the slots and who is next. It knows neither time nor goroutines, so that a simulation runs it too.
type book struct {
	lanes []*lane
	// free is how many slots nobody holds, of those that are not reserved.
	free int
}

// take holds a slot for a lane, if it may have one at once.
func (b *book) take(of *lane) bool {
	if of.reserved {
		if of.running == of.share {
			return false
		}
	} else {
		if b.free == 0 {
			return false
		}
		b.free--
	}
	of.running++
	return true
}

// give ends a request of a lane, and holds its slot for the next that waits: of the lane that has the least of its
// share. It returns that lane; nil: nobody waits.
func (b *book) give(of *lane) *lane {
	of.running--
	if of.reserved {
		if of.waiting == 0 {
			return nil
		}
		of.running++
		return of
	}
	next := b.next()
	if next == nil {
		b.free++
		return nil
	}
	next.running++
	return next
}

// next is the lane whose turn it is, of those that have no slots reserved and requests that wait.
func (b *book) next() *lane {
	var next *lane
	for _, each := range b.lanes {
		if each.reserved || each.waiting == 0 {
			continue
		}
		if next == nil || each.running*next.share < next.running*each.share {
			next = each
		}
	}
	return next
}

// allocate shares out the slots that are not reserved by what was asked of them.
func (b *book) allocate(load func(*lane) Load) {
	var lanes []*lane
	var loads []Load
	slots := b.free
	for _, each := range b.lanes {
		if each.reserved {
			continue
		}
		slots += each.running
		lanes, loads = append(lanes, each), append(loads, load(each))
	}
	// With more lanes than slots the shares are turns.
	for i, share := range Allocate(loads, max(slots, len(lanes))) {
		lanes[i].share = share
	}
}
