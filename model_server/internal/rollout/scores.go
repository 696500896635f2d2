package rollout

import (
	"math"
	"sync/atomic"
)

// The bins of scores, from the lowest to the highest: no number, below 0, the log-odds of 0 to 1, above 1. Scores of
// clicks lie close to 0, where bins of equal width would hold them all in one.
const (
	outerBins  = 32
	innerBins  = 256
	mostOdds   = 16.0 // of the log-odds, on both sides
	scoreBins  = 1 + outerBins + innerBins + outerBins
	firstInner = 1 + outerBins
	firstAbove = firstInner + innerBins
)

// Scores counts scores by size. Any number of goroutines may add.
type Scores [scoreBins]atomic.Int64

// Add counts one score.
func (s *Scores) Add(score float32) { s[scoreBin(float64(score))].Add(1) }

func (s *Scores) read() (counts []int64, total int64) {
	counts = make([]int64, len(s))
	for i := range s {
		counts[i] = s[i].Load()
		total += counts[i]
	}
	return counts, total
}

// scoreBin grows with the score.
func scoreBin(score float64) int {
	switch {
	case math.IsNaN(score):
		return 0
	case score < 0:
		return firstInner - 1 - outerBin(-score)
	case score > 1:
		return firstAbove + outerBin(score-1)
	}
	odds := math.Log(score / (1 - score)) // of 0 and of 1 infinite
	place := (odds + mostOdds) / (2 * mostOdds) * innerBins
	return firstInner + int(min(max(place, 0), innerBins-1))
}

// outerBin has two bins for each power of 2.
func outerBin(beyond float64) int {
	return int(min(2*math.Log2(1+beyond), outerBins-1))
}

// quantiles is of how many groups of equal size the index is made, as is usual for its bounds (0.1: a small shift, 0.2:
// a large one).
const quantiles = 10

// PSI is the population stability index of the scores of a candidate against those of a reference; false: one has none.
func PSI(reference, candidate *Scores) (float64, bool) {
	expected, all := reference.read()
	actual, found := candidate.read()
	if all == 0 || found == 0 {
		return 0, false
	}
	return indexOf(grouped(expected, actual, all)), true
}

// group is how many scores of either are in a range.
type group struct{ expected, actual int64 }

// grouped are the ranges that hold a tenth of the reference each. A bin that holds a tenth alone is a range alone, and so
// is what is no number: else scores could leave the bin for its neighbours, and it would not be seen.
func grouped(expected, actual []int64, all int64) []group {
	var groups []group
	var open group
	end := func() {
		if open != (group{}) {
			groups = append(groups, open)
			open = group{}
		}
	}
	for i := range expected {
		heavy := expected[i]*quantiles >= all || i == 0
		if heavy {
			end()
		}
		open.expected += expected[i]
		open.actual += actual[i]
		if heavy || open.expected*quantiles >= all {
			end()
		}
	}
	end()
	return groups
}

// indexOf smooths by half a score a group, so that an empty one is no infinite shift.
func indexOf(groups []group) float64 {
	const half = 0.5
	all, found := half*float64(len(groups)), half*float64(len(groups))
	for _, each := range groups {
		all += float64(each.expected)
		found += float64(each.actual)
	}
	index := 0.0
	for _, each := range groups {
		was, is := (float64(each.expected)+half)/all, (float64(each.actual)+half)/found
		index += (is - was) * math.Log(is/was)
	}
	return index
}
