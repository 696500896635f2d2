package models

import "testing"

func TestSharedBytesAreAskedForAgainAndAtMostOnceASecond(t *testing.T) {
	f := newFakes(t, latest)
	f.write(3, "three")
	f.look()
	shares := func(expected int64) {
		t.Helper()
		if got := f.registry.State()[0].Versions[0].SharedTableBytes; got == nil || *got != expected {
			t.Errorf("%v; expected %d", got, expected)
		}
	}
	shares(0)
	f.shared.Store(4096) // another model has come
	shares(0)
	f.pass(mostOften)
	shares(4096)
	asked := f.described.Load()
	shares(4096)
	if f.described.Load() != asked {
		t.Error("it was asked again at once")
	}
}

func TestAModelThatDoesNotDescribeItselfHoldsUpNoStateAndIsNotClosed(t *testing.T) {
	f := newFakes(t, latest)
	f.write(3, "three")
	f.look()
	f.shared.Store(-1)
	for range 2 {
		f.pass(mostOften)
		if got := f.registry.State()[0].Versions[0].SharedTableBytes; got != nil {
			t.Error(*got)
		}
	}
	f.shared.Store(0)
	f.write(4, "four")
	f.look()
	f.answers("four", 4)
	if f.closes.Load() != 0 {
		t.Error("it was closed while it was asked")
	}
	close(f.goOn)
	f.until(func() bool { return f.closes.Load() == 1 })
	if f.wrong.Load() {
		t.Error("it was closed while it was used")
	}
}
