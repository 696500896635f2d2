package connections

import (
	"math"
	"strings"
	"testing"
)

func TestConnectionsLeaveFilesToTheRest(t *testing.T) {
	for _, each := range []struct {
		wanted, addresses int
		openFiles         uint64
		most              int
		says              string
	}{
		{1000, 2, 2256, 1000, ""}, {1000, 2, 2255, 999, "limits.connections is 1000, and `ulimit -n` is 2255"}, {1000, 1, 1256, 1000, ""},
		{1000, 2, 1024, 384, "each of 2 addresses takes 384 connections; raise `ulimit -n` to 2256"},
		{1000, 2, 288, 16, "takes 16 connections"}, {5, 2, 266, 5, ""}, {1000, 0, 10, 1000, ""}, {1 << 20, 2, math.MaxUint64, 1 << 20, ""},
		{1000, 2, 287, 0, "`ulimit -n` is 287, of which 256 are for other files than connections: that leaves 15 for each of 2 addresses"},
		{5, 2, 265, 0, "that leaves 4 for each of 2 addresses; allowed: 5 or more; raise it to 266 for"}, {1000, 2, 100, 0, "that leaves 0 for each of 2 addresses; allowed: 16 or more; raise it to 288 for these, or to 2256 for"},
	} {
		most, says, err := Fit(each.wanted, each.addresses, each.openFiles)
		if err != nil {
			says = err.Error()
		}
		if most != each.most || !strings.Contains(says, each.says) || (says == "") != (each.says == "") || (err != nil) != (most == 0) {
			t.Errorf("%+v: %d, %q, %v", each, most, says, err)
		}
	}
}
