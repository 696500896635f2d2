package models

import (
	"context"
	"slices"
	"testing"

	"afo/model_server/internal/config"
)

// serves checks the versions that are served, the newest first.
func (f *fakes) serves(expected ...int64) {
	f.t.Helper()
	var got []int64
	for _, each := range f.model().served.Load().versions {
		got = append(got, each.number)
	}
	if !slices.Equal(got, expected) {
		f.t.Errorf("%v; expected %v", got, expected)
	}
}

func TestAnOlderVersionIsServedWhereTheNewestCannotBeLoaded(t *testing.T) {
	f := newFakes(t, latest)
	f.write(2, "two")
	f.write(3, "three")
	f.write(4, "broken glass")
	f.look()
	f.look()
	f.answers("three", 3)
	f.serves(3)
	f.state(4, StateEnd, "it is broken glass")
	if f.loads.Load() != 2 || f.said("serving version 3, as 4 cannot be loaded") != 1 {
		t.Errorf("%d loads\n%s", f.loads.Load(), f.log.String())
	}
	f.pass(firstPause)
	f.look()
	if f.loads.Load() != 3 {
		t.Errorf("%d loads; the newest one is tried again", f.loads.Load())
	}
	f.write(4, "four")
	f.look()
	f.serves(4)
	f.write(5, "broken")
	f.write(6, "broken")
	f.look()
	f.serves(4)
	if f.said("serving version 4, as 6, 5 cannot be loaded") != 1 {
		t.Error(f.log.String())
	}
	f.write(7, "seven")
	f.look()
	f.serves(7)
	f.remove(5)
	f.look()
	if failures := f.model().failures; len(failures) != 1 || failures[6] == nil {
		t.Errorf("%v; kept are those of versions that are there", failures)
	}
}

func TestABrokenVersionWaitsForItsTimeHoweverManyNewerOnesCome(t *testing.T) {
	f := newFakes(t, latest)
	f.write(1, "one")
	f.look()
	f.write(2, "broken")
	f.look()
	for number := int64(3); number < 9; number++ {
		text := "broken"
		if number%2 == 0 {
			text = "good"
		}
		f.write(number, text)
		before := f.loads.Load()
		f.look()
		if f.loads.Load() != before+1 {
			t.Errorf("%d loads of version %d and others", f.loads.Load()-before, number)
		}
	}
	f.serves(8)
	f.write(9, "broken")
	before := f.loads.Load()
	f.pass(mostPause)
	f.look()
	f.serves(8)
	if f.loads.Load() != before+1 {
		t.Errorf("%d loads; versions older than the one that answers are not wanted", f.loads.Load()-before)
	}
}

func TestAVersionThatCannotBeLoadedDoesNotCountAmongTheLatest(t *testing.T) {
	for policy, expected := range map[*config.Versions][]int64{
		{Latest: 2}:               {4, 2},
		{All: true}:               {4, 2, 1},
		{Specific: []int64{3, 4}}: {4},
		{Specific: []int64{3, 5}}: nil,
	} {
		f := newFakes(t, *policy)
		for number, text := range map[int64]string{1: "one", 2: "two", 3: "broken", 4: "four"} {
			f.write(number, text)
		}
		f.look()
		f.serves(expected...)
	}
}

func TestWhereAllVersionsFailAFewAreTried(t *testing.T) {
	f := newFakes(t, latest)
	const versions = 30
	for number := int64(1); number <= versions; number++ {
		f.write(number, "broken")
	}
	f.look()
	if f.loads.Load() != mostPassedOver {
		t.Errorf("%d loads", f.loads.Load())
	}
	f.write(1, "one")
	f.look()
	if f.loads.Load() != mostPassedOver {
		t.Errorf("%d loads of others", f.loads.Load())
	}
}

func TestWhatIsServedStaysHoweverManyNewerOnesFail(t *testing.T) {
	f := newFakes(t, latest)
	f.write(1, "one")
	f.model().look(context.Background())
	for number := int64(2); number <= 30; number++ {
		f.write(number, "broken")
	}
	f.look()
	f.serves(1)
	f.look()
	f.serves(1)
}

func TestALabelOfAVersionThatIsNotPickedIsSaidOnce(t *testing.T) {
	for policy, expected := range map[*config.Versions]int{
		{Latest: 1}: 2, {All: true}: 1, {Specific: []int64{1, 9}}: 0, {Specific: []int64{2}}: 2,
	} {
		f := newFakes(t, *policy) // with the labels stable (1) and next (9)
		f.look()
		f.write(1, "one")
		f.write(2, "two")
		f.look()
		f.look()
		if got := f.said("a label names a version"); got != expected {
			t.Errorf("%v: said %d times; expected %d", policy, got, expected)
		}
	}
}
