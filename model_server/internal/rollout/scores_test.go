package rollout

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"
)

// clicked are scores whose log-odds are normal around a place.
func clicked(count int, around, spread float64, seed uint64) *Scores {
	random := rand.New(rand.NewPCG(seed, 1))
	scores := &Scores{}
	for range count {
		scores.Add(float32(1 / (1 + math.Exp(-around-spread*random.NormFloat64()))))
	}
	return scores
}

func constant(count int, score float32) *Scores {
	scores := &Scores{}
	for range count {
		scores.Add(score)
	}
	return scores
}

func TestTheIndexTellsAShiftFromChance(t *testing.T) {
	usual := clicked(4000, -4, 1, 1)
	mixed := constant(95, 0.25)
	for range 5 {
		mixed.Add(float32(math.NaN()))
	}
	for name, each := range map[string]struct {
		reference, candidate *Scores
		least, most          float64
	}{
		"the same scores":              {usual, usual, 0, 1e-12},
		"other users":                  {usual, clicked(400, -4, 1, 2), 0, 0.1},
		"a shift by a standard error":  {usual, clicked(400, -3, 1, 3), 0.5, 10},
		"a wider spread":               {usual, clicked(400, -4, 3, 4), 0.3, 10},
		"below all that there was":     {constant(300, 0.25), constant(300, 0.2), 1, 100},
		"above all that there was":     {constant(300, 0.25), constant(300, 0.3), 1, 100},
		"beyond what a probability is": {constant(300, 1), constant(300, 1.5), 1, 100},
		"below it":                     {constant(300, 0), constant(300, -3), 1, 100},
		"one in twenty is no number":   {constant(100, 0.25), mixed, 0.1, 10},
	} {
		if got, ok := PSI(each.reference, each.candidate); !ok || got < each.least || got > each.most {
			t.Errorf("%s: %v, %v; expected %v to %v", name, got, ok, each.least, each.most)
		}
	}
	if _, ok := PSI(usual, &Scores{}); ok {
		t.Error("an index of nothing")
	}
}

func TestTheIndexIsFiniteAndNeverBelowZero(t *testing.T) {
	check := func(reference, candidate []float32) bool {
		var a, b Scores
		for _, each := range append(reference, 0.5) {
			a.Add(each)
		}
		for _, each := range append(candidate, 0.5) {
			b.Add(each)
		}
		index, ok := PSI(&a, &b)
		return ok && index >= 0 && !math.IsInf(index, 0) && !math.IsNaN(index)
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}

func TestBinsOfScoresGrowWithThem(t *testing.T) {
	check := func(a, b float32) bool {
		x, y := scoreBin(float64(a)), scoreBin(float64(b))
		return x >= 0 && y < scoreBins && (a < b) == (x < y) || x == y || a == b
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
	for score, bin := range map[float64]int{
		math.Inf(-1): 1, math.Inf(1): scoreBins - 1, 0: firstInner, 1: firstAbove - 1, 0.5: firstInner + innerBins/2,
	} {
		if got := scoreBin(score); got != bin {
			t.Errorf("%v: %d, not %d", score, got, bin)
		}
	}
	if scoreBin(math.NaN()) != 0 {
		t.Error("no number")
	}
}

func TestDurationsAreKeptToAFewPercent(t *testing.T) {
	check := func(nanoseconds uint64) bool {
		took := time.Duration(nanoseconds % uint64(100*time.Second))
		bin := durationBin(took)
		return leastOf(bin) <= float64(took) && float64(took) < leastOf(bin+1) &&
			(bin < 32 || leastOf(bin+1)-leastOf(bin) <= leastOf(bin)/16)
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
	if durationBin(-1) != 0 || durationBin(time.Hour) != durationBins-1 {
		t.Error(durationBin(-1), durationBin(time.Hour))
	}
}

func TestAWindowForgetsAfterAMinute(t *testing.T) {
	now := time.Unix(1000, 0)
	window := NewWindow(now)
	if times, rate := window.Read(now); times.Total != 0 || rate != 0 {
		t.Error(times.Total, rate)
	}
	if _, ok := (&Times{}).Quantile(0.5); ok {
		t.Error("a median of nothing")
	}
	for second := range 120 {
		window.Turn(now.Add(time.Duration(second) * time.Second))
		for range 10 {
			window.Add(time.Duration(1+second/60) * 10 * time.Millisecond)
		}
	}
	times, rate := window.Read(now.Add(119 * time.Second))
	median, _ := times.Quantile(0.5)
	if rate < 9 || rate > 11 || median < 19*time.Millisecond || median > 21*time.Millisecond {
		t.Error(rate, median)
	}
	if times, rate := window.Read(now.Add(time.Hour)); times.Total != 0 || rate != 0 {
		t.Error(times.Total, rate)
	}
}
