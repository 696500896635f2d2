package models

import (
	"errors"
	"strings"
	"testing"

	"afo/model_server/internal/config"
)

func TestWhatKeepsVersionsFromComingIsInTheStatusAndWhatIsServedStays(t *testing.T) {
	var problems []Problem
	f := newFakes(t, config.Versions{Latest: 1}, func(o *Options) { o.Problems = func(string) []Problem { return problems } })
	problems = []Problem{{Path: "hdfs://ns/ctr", Err: errors.New("no available namenodes")}}
	f.look()
	f.look()
	if f.said("no available namenodes") != 2 { // the entry, and that nothing is served for it
		t.Error(f.log.text.String())
	}
	f.write(3, "three")
	problems = []Problem{{Path: "hdfs://ns/ctr/4", Version: 4, Err: errors.New("the disk is full")}}
	f.look()
	f.answers("three", 3)
	f.state(4, StateEnd, "the disk is full")
	problems = nil
	f.write(4, "four")
	f.look()
	f.answers("four", 4)
	if all, err := f.registry.Status("ctr", 4); err != nil || strings.Contains(all[0].Message, "full") {
		t.Error(all, err)
	}
}
