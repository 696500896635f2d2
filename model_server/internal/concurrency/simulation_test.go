package concurrency

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"testing"
)

// event is an arrival, or the end of a request that began.
type event struct {
	at     float64
	lane   int
	begins bool
	begun  float64
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// simulate runs requests, that come by chance and hold slots for exponential times, through the book of a pool, and
// returns the mean seconds that a request of each model waits.
func simulate(loads []Load, b *book, seconds float64, seed uint64) []float64 {
	random := rand.New(rand.NewPCG(seed, 1))
	var future events
	arrive := func(lane int, after float64) {
		if rate := loads[lane].Rate; rate > 0 {
			heap.Push(&future, event{at: after + random.ExpFloat64()/rate, lane: lane, begins: true})
		}
	}
	lines := make([][]float64, len(loads))
	waited, count := make([]float64, len(loads)), make([]float64, len(loads))
	begin := func(lane int, came, now float64) {
		waited[lane] += now - came
		count[lane]++
		heap.Push(&future, event{at: now + random.ExpFloat64()*loads[lane].Held, lane: lane})
	}
	number := map[*lane]int{}
	for i, each := range b.lanes {
		number[each] = i
		arrive(i, 0)
	}
	for len(future) > 0 {
		now := heap.Pop(&future).(event)
		of := b.lanes[now.lane]
		switch {
		case now.begins && now.at > seconds:
		case now.begins:
			arrive(now.lane, now.at)
			if b.take(of) {
				begin(now.lane, now.at, now.at)
			} else {
				of.waiting++
				lines[now.lane] = append(lines[now.lane], now.at)
			}
		default:
			if next := b.give(of); next != nil {
				i := number[next]
				next.waiting--
				begin(i, lines[i][0], now.at)
				lines[i] = lines[i][1:]
			}
		}
	}
	for i := range waited {
		waited[i] /= max(1, count[i])
	}
	return waited
}

// partitioned is a book in which no lane has another one's slots.
func partitioned(shares []int) *book {
	b := &book{}
	for _, share := range shares {
		b.lanes = append(b.lanes, &lane{share: share, reserved: true})
	}
	return b
}

// shared is a pool's: lanes have what is idle.
func shared(shares []int) *book {
	b := &book{}
	for _, share := range shares {
		b.lanes = append(b.lanes, &lane{share: share})
		b.free += share
	}
	return b
}

// meanWait is that of all requests.
func meanWait(loads []Load, waits []float64) float64 {
	sum, rates := 0.0, 0.0
	for i, load := range loads {
		sum, rates = sum+load.Rate*waits[i], rates+load.Rate
	}
	return sum / rates
}

var eightCores = []Load{{Rate: 900, Held: 0.001}, {Rate: 80, Held: 0.02}, {Rate: 18, Held: 0.12}, {Rate: 200, Held: 0.002}}

func TestTheAllocationIsTheBestPartitionOfTheSimulation(t *testing.T) {
	const slots, seconds = 8, 200
	best, at := math.Inf(1), []int(nil)
	exhaustive(eightCores, slots, func(shares []int) {
		if math.IsInf(cost(eightCores, shares), 1) {
			return
		}
		if waits := meanWait(eightCores, simulate(eightCores, partitioned(shares), seconds, 7)); waits < best {
			best, at = waits, append([]int(nil), shares...)
		}
	})
	ours := Allocate(eightCores, slots)
	part := meanWait(eightCores, simulate(eightCores, partitioned(ours), seconds, 7))
	pool := meanWait(eightCores, simulate(eightCores, shared(ours), seconds, 7))
	t.Logf("mean wait: best partition %v %.3f ms, allocated %v %.3f ms, with idle slots shared %.3f ms", at, 1000*best, ours, 1000*part, 1000*pool)
	if part > 1.05*best {
		t.Errorf("%v makes requests wait %v s, the best partition %v %v s", ours, part, at, best)
	}
	if pool > part {
		t.Errorf("with idle slots shared requests wait %v s, without %v s", pool, part)
	}
}

func TestAFloodOfOneModelLeavesTheOthersTheirShares(t *testing.T) {
	ours := Allocate(eightCores, 8)
	calm := simulate(eightCores, shared(ours), 200, 3)
	flooded := append([]Load(nil), eightCores...)
	flooded[2].Rate *= 10 // asks for 18 slots of 8
	waits := simulate(flooded, shared(ours), 200, 3)
	t.Logf("mean waits in ms: calm %.3f, with a flood of the third %.3f", inMilliseconds(calm), inMilliseconds(waits))
	for _, i := range []int{0, 1, 3} {
		// It waits for the slots that are its own, of which the dear requests hold some until they end.
		if waits[i] > 0.12 {
			t.Errorf("model %d waits %v s with a flood, %v s without", i, waits[i], calm[i])
		}
	}
	if waits[2] < 1 {
		t.Errorf("the flood waits %v s: it is none", waits[2])
	}
}

func inMilliseconds(seconds []float64) []float64 {
	var all []float64
	for _, each := range seconds {
		all = append(all, 1000*each)
	}
	return all
}
