package concurrency

import (
	"math"
	"math/rand/v2"
	"testing"
)

// cost is what an allocation makes wait.
func cost(loads []Load, shares []int) float64 {
	sum := 0.0
	for i, load := range loads {
		sum += load.waiting(shares[i])
	}
	return sum
}

// exhaustive goes through all partitions of slots.
func exhaustive(loads []Load, slots int, try func([]int)) {
	shares := make([]int, len(loads))
	var choose func(i, left int)
	choose = func(i, left int) {
		if i == len(loads)-1 {
			shares[i] = left
			try(shares)
			return
		}
		for shares[i] = 1; shares[i] <= left-(len(loads)-1-i); shares[i]++ {
			choose(i+1, left-shares[i])
		}
	}
	choose(0, slots)
}

func TestNoPartitionMakesFewerWait(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	stable := 0
	for range 300 {
		loads := make([]Load, 1+random.IntN(4))
		slots := len(loads) + random.IntN(12)
		for i := range loads {
			loads[i] = Load{Rate: random.ExpFloat64() * 100, Held: random.ExpFloat64() * float64(slots) / 150 / float64(len(loads))}
		}
		best := math.Inf(1)
		exhaustive(loads, slots, func(shares []int) { best = min(best, cost(loads, shares)) })
		got := Allocate(loads, slots)
		if math.IsInf(best, 1) {
			isFair(t, loads, got)
			continue
		}
		stable++
		if found := cost(loads, got); found > best*(1+1e-9) {
			t.Errorf("%v over %d slots: %v makes %v wait, the best %v", loads, slots, got, found, best)
		}
	}
	if stable < 100 || stable > 290 {
		t.Errorf("%d of 300 are stable: both kinds have to be tried", stable)
	}
}

// isFair checks that nobody has more than one whose slots are too few, but for the slot that is left over.
func isFair(t *testing.T, loads []Load, shares []int) {
	t.Helper()
	for i, load := range loads {
		for j := range loads {
			if !load.ends(shares[i]) && shares[j] > shares[i]+1 {
				t.Errorf("%v: of %v load %d has more than load %d, which does not end its work", loads, shares, j, i)
			}
		}
	}
}

func TestAFloodTakesNothingThatOthersNeed(t *testing.T) {
	if got := Allocate([]Load{{1e5, 0.01}, {700, 0.005}}, 8); got[1] != 4 {
		t.Errorf("%v: the second load needs 4 of 8 slots", got)
	}
}

func TestSharesAreEqualWhereNothingIsMeasured(t *testing.T) {
	if got := Allocate(make([]Load, 3), 8); got[0] != 3 || got[1] != 3 || got[2] != 2 {
		t.Error(got)
	}
}

func TestWaitingIsErlangsFormula(t *testing.T) {
	// One slot: M/M/1, use^2 / (1 - use). Two slots with 1 Erlang: 1/3.
	for _, each := range []struct {
		load  Load
		slots int
		want  float64
	}{{Load{1, 0.5}, 1, 0.5}, {Load{2, 0.5}, 2, 1. / 3}, {Load{}, 3, 0}} {
		if got := each.load.waiting(each.slots); math.Abs(got-each.want) > 1e-12 {
			t.Errorf("%v of %d: %v, expected %v", each.load, each.slots, got, each.want)
		}
	}
}

func TestEachSlotIsAllocated(t *testing.T) {
	sum := 0
	for _, share := range Allocate([]Load{{1000, 1}, {0, 0}, {10, 0.01}}, 16) {
		sum += share
		if share < 1 {
			t.Error("a model without a slot")
		}
	}
	if sum != 16 {
		t.Errorf("%d of 16", sum)
	}
	if got := Allocate(nil, 4); len(got) != 0 {
		t.Error(got)
	}
}
