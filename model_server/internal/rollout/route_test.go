package rollout

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/quick"
)

func TestSharesAreKeptAndUsersStay(t *testing.T) {
	route := &Route{Default: 3, HashHeader: "x-user-id", Salt: "ctr/4", Shares: []Share{{4, 5}, {5, 20}}}
	counts := map[int64]float64{}
	const users = 20000
	for user := range users {
		key := fmt.Sprint(user)
		chosen := route.Choose(key, 0)
		if route.Choose(key, 0.99) != chosen {
			t.Fatal("chance moves a user")
		}
		counts[chosen]++
	}
	for version, percent := range map[int64]float64{3: 75, 4: 5, 5: 20} {
		if got := 100 * counts[version] / users; math.Abs(got-percent) > 1 {
			t.Errorf("version %d has %v percent, not %v", version, got, percent)
		}
	}
}

func TestWithoutAKeyChanceDecides(t *testing.T) {
	route := &Route{Default: 3, Shares: []Share{{4, 5}}}
	for chance, version := range map[float64]int64{0: 4, 0.0499: 4, 0.0501: 3, 0.9999: 3} {
		if got := route.Choose("", chance); got != version {
			t.Errorf("%v: %d", chance, got)
		}
	}
}

func TestAUserStaysWhenTheShareOfOthersMoves(t *testing.T) {
	labels, percents := []string{"a", "b", "c"}, map[string]float64{"a": 10, "b": 30, "c": 60}
	versions := map[string]int64{"a": 1, "b": 2, "c": 3}
	split := func(missing string) *Route {
		shares, _ := SplitOf(labels, percents, func(label string) int64 {
			if label == missing {
				return 0
			}
			return versions[label]
		})
		return &Route{Shares: shares}
	}
	whole := split("")
	check := func(key string) bool {
		if key == "" {
			return true
		}
		for missing, gone := range versions {
			before, now := whole.Choose(key, 0), split(missing).Choose(key, 0)
			if before != gone && now != before || now == gone {
				return false
			}
		}
		return true
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
	if shares, largest := SplitOf(labels, percents, func(string) int64 { return 0 }); shares != nil || largest != 0 {
		t.Error("shares of nothing")
	}
	if _, largest := SplitOf(labels, percents, func(label string) int64 { return versions[label] }); largest != 3 {
		t.Error(largest)
	}
}

func TestWhatAnswersOfWhatIsLoaded(t *testing.T) {
	for _, each := range []struct {
		held     Held
		loaded   []int64
		canary   int64
		expected int64
	}{
		{Held{}, nil, 0, 0},
		{Held{}, []int64{4, 3}, 0, 4},
		{Held{}, []int64{4, 3}, 4, 3},
		{Held{Pinned: 3}, []int64{4, 3, 2}, 0, 3},
		{Held{Pinned: 3}, []int64{4, 2}, 0, 2},
		{Held{Pinned: 3}, []int64{4}, 0, 0},
		{Held{Stable: 3}, []int64{5, 4, 3}, 5, 3},
		{Held{Stable: 3}, []int64{5, 4}, 5, 4},
		{Held{Stable: 3, Pinned: 4}, []int64{4, 3}, 0, 4},
		{Held{Rejected: []Rejection{{Version: 4}}}, []int64{4, 3}, 0, 3},
		{Held{Rejected: []Rejection{{Version: 4}}}, []int64{4}, 0, 0},
	} {
		if got := each.held.Default(each.loaded, each.canary); got != each.expected {
			t.Errorf("%+v of %v: %d", each.held, each.loaded, got)
		}
	}
}

// A default is loaded, no canary, not rejected, and not beyond the pin, whatever was held.
func TestADefaultIsOneThatMayAnswer(t *testing.T) {
	check := func(pinned, stable, canary uint8, rejected, loaded []uint8) bool {
		held := Held{Pinned: int64(pinned % 8), Stable: int64(stable % 8)}
		for _, each := range rejected {
			held.Rejected = append(held.Rejected, Rejection{Version: int64(each % 8)})
		}
		var numbers []int64
		for _, each := range loaded {
			numbers = append(numbers, int64(each%8)+1)
		}
		slices.Sort(numbers)
		slices.Reverse(numbers)
		got := held.Default(numbers, int64(canary%8))
		return got == 0 || slices.Contains(numbers, got) && got != int64(canary%8) && !held.Rejects(got) && (held.Pinned == 0 || got <= held.Pinned)
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}
