package rollout

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// A bin is a 16th of a power of 2 of units (1.024 µs) wide; the last one begins at two minutes.
	binBits      = 4
	unitBits     = 10
	mostBits     = 27
	durationBins = (mostBits - binBits + 1) << binBits
)

// Durations counts times by length. Any number of goroutines may add.
type Durations [durationBins]atomic.Int64

// Add counts one.
func (d *Durations) Add(took time.Duration) { d[durationBin(took)].Add(1) }

func durationBin(took time.Duration) int {
	units := uint64(max(took, 0)) >> unitBits
	if units < 1<<binBits {
		return int(units)
	}
	power := bits.Len64(units) - 1 - binBits
	return min(power<<binBits+int(units>>power), durationBins-1)
}

// leastOf is where a bin begins.
func leastOf(bin int) float64 {
	if bin < 1<<binBits {
		return float64(int64(bin) << unitBits)
	}
	power := bin>>binBits - 1
	return float64(int64(bin-power<<binBits) << (power + unitBits))
}

// Times are durations that were counted, read.
type Times struct {
	counts [durationBins]int64
	Total  int64
}

func (t *Times) add(from *Durations) {
	for i := range from {
		count := from[i].Load()
		t.counts[i] += count
		t.Total += count
	}
}

// Quantile is the time that a share of all took at most, to about 3 %; false: there are none.
func (t *Times) Quantile(share float64) (time.Duration, bool) {
	if t.Total == 0 {
		return 0, false
	}
	left := share * float64(t.Total)
	last := 0
	for i, count := range t.counts {
		if count == 0 {
			continue
		}
		if left <= float64(count) {
			least := leastOf(i)
			return time.Duration(least + (leastOf(i+1)-least)*left/float64(count)), true
		}
		left -= float64(count)
		last = i
	}
	return time.Duration(leastOf(last + 1)), true
}
