package throttle

import (
	"testing"
	"time"
)

func TestALineTellsWhatHappenedSinceTheOneBefore(t *testing.T) {
	var line Line
	begin := time.Unix(1000, 0)
	for _, each := range []struct {
		after       time.Duration
		occurrences int64
		untold      int64
		told        bool
	}{{0, 1, 1, true}, {0, 2, 0, false}, {Every - 1, 3, 0, false}, {Every, 1, 6, true}, {Every + 1, 5, 0, false}, {2 * Every, 0, 5, true}} {
		if untold, told := line.Add(each.occurrences, begin.Add(each.after)); untold != each.untold || told != each.told {
			t.Errorf("%+v: %d, %v", each, untold, told)
		}
	}
}
