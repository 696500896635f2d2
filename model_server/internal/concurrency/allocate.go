package concurrency

import "math"

// Load is what requests for a model ask of the slots.
type Load struct {
	// Rate is in requests a second.
	Rate float64
	// Held is the mean of the seconds that a request holds a slot.
	Held float64
}

// offered is how many slots are held on average where nobody waits, in Erlang.
func (l Load) offered() float64 { return l.Rate * l.Held }

// waiting is the mean number of requests that wait for one of some slots: that of an M/M/c queue, by Erlang's C
// formula. It is infinite where the slots are too few.
func (l Load) waiting(slots int) float64 {
	offered := l.offered()
	if offered >= float64(slots) {
		return math.Inf(1)
	}
	blocked := 1.0 // Erlang's B formula, by its recursion over the slots
	for i := 1; i <= slots; i++ {
		blocked = offered * blocked / (float64(i) + offered*blocked)
	}
	use := offered / float64(slots)
	return blocked / (1 - use*(1-blocked)) * use / (1 - use)
}

// ends says whether so many slots end the work that comes.
func (l Load) ends(slots int) bool { return l.offered() < float64(slots) }

// Allocate shares out slots so that as few requests wait as can be; each load has one slot at least, for which there
// have to be enough. Where they are too few for all, the shares are max-min fair: who asks for more than an equal part
// has what the others leave.
//
// One slot after the other goes where it helps most. That is the best of all partitions, as the number that waits is
// convex in the slots (Dyer and Proll, "On the validity of marginal analysis for allocating servers in M/M/c queues",
// Management Science 23, 1977).
func Allocate(loads []Load, slots int) []int {
	shares := make([]int, len(loads))
	for i := range shares {
		shares[i] = 1
	}
	for left := slots - len(loads); left > 0 && len(loads) > 0; left-- {
		shares[neediest(loads, shares)]++
	}
	return shares
}

// neediest is the load that one more slot helps most: first the smallest share that does not end its work.
func neediest(loads []Load, shares []int) int {
	best, helps := -1, 0.0
	for i, load := range loads {
		if !load.ends(shares[i]) && (best < 0 || shares[i] < shares[best]) {
			best = i
		}
	}
	if best >= 0 {
		return best
	}
	for i, load := range loads {
		fewer := load.waiting(shares[i]) - load.waiting(shares[i]+1)
		if best < 0 || fewer > helps || fewer == helps && shares[i] < shares[best] {
			best, helps = i, fewer
		}
	}
	return best
}
