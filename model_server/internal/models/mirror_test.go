package models

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"afo/model_server/internal/concurrency"
	"afo/model_server/internal/config"
	pb "afo/model_server/internal/tfserving"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// labelled has the versions 1, stable, and 9, next.
func labelled(t *testing.T, traffic *config.Traffic, next string, change ...func(*Options)) *fakes {
	f := newFakes(t, config.Versions{All: true}, append(change, func(options *Options) { options.Models[0].Traffic = traffic })...)
	f.write(1, "scores 0.25")
	f.write(9, next)
	f.look()
	return f
}

func TestASplitSharesRequestsOut(t *testing.T) {
	f := labelled(t, &config.Traffic{HashHeader: "x-user-id", Split: map[string]float64{"stable": 75, "next": 25}}, "v9")
	counts, chosen := map[int64]int{}, map[string]int64{}
	f.users(1000, chosen)
	f.users(1000, chosen)
	for _, version := range chosen {
		counts[version]++
	}
	if counts[9] < 200 || counts[9] > 300 || counts[1]+counts[9] != 1000 {
		t.Error(counts)
	}
	if split := f.registry.State()[0].Split; split["next"] != 25 {
		t.Error(split)
	}
	f.must(f.rollback("ctr", 1, "ann"))
	if split := f.registry.State()[0].Split; split != nil {
		t.Error(split)
	}
	f.users(100, map[string]int64{})
	if _, version, _ := f.ask(Spec{Name: "ctr"}, "x"); version != 1 {
		t.Error("a pin is for all")
	}
}

func TestARejectedVersionHasNoShareOfASplitUntilAPromote(t *testing.T) {
	f := labelled(t, &config.Traffic{HashHeader: "x-user-id", Split: map[string]float64{"stable": 25, "next": 75}}, "v9")
	fails(t, f.rollback("ctr", 0, "ann"), codes.FailedPrecondition, "`rollback ctr:VERSION` pins one for all requests, and to drop a challenger")
	f.must(f.rollback("ctr", 1, "ann"))
	f.model().held.Pinned = 0 // as a version that was rejected otherwise
	f.look()
	f.model().publish(f.model().served.Load().versions)
	for range 50 {
		if _, version, err := f.ask(Spec{Name: "ctr"}, "x"); version != 1 || err != nil {
			t.Fatal(version, err)
		}
	}
	f.must(f.promote("ctr", 0, false, "ann"))
	chosen := map[string]int64{}
	f.users(200, chosen)
	counts := map[int64]int{}
	for _, version := range chosen {
		counts[version]++
	}
	if counts[1] == 0 || counts[9] == 0 || len(f.registry.State()[0].Rejected) != 0 {
		t.Error(counts)
	}
}

func TestTheShareOfALabelThatIsNotThereIsTheOthers(t *testing.T) {
	f := labelled(t, &config.Traffic{Split: map[string]float64{"stable": 75, "next": 25}}, "broken")
	f.write(10, "v10")
	f.look()
	for range 100 {
		if _, version, err := f.ask(Spec{Name: "ctr"}, "x"); version != 1 || err != nil {
			t.Fatal(version, err)
		}
	}
}

func mirrored(percent float64) *config.Traffic {
	return &config.Traffic{Split: map[string]float64{"stable": 100}, Mirror: &config.Mirror{Label: "next", Percent: percent}}
}

func TestAMirrorIsAskedAndItsAnswersAreCompared(t *testing.T) {
	f := labelled(t, mirrored(100), "scores 0.5")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go f.registry.mirror.run(ctx)
	counts := &f.model().mirrored
	for asked := int64(1); asked <= 30; asked++ {
		if _, version, err := f.ask(Spec{Name: "ctr"}, "x"); version != 1 || err != nil {
			t.Fatal(version, err)
		}
		f.until(func() bool { return counts.requests.Load() == asked })
	}
	state := f.registry.State()[0].Mirror
	f.until(func() bool { return *f.registry.State()[0].Mirror.ScorePSI > 0.5 })
	if state.Label != "next" || state.Percent != 100 || state.Requests != 30 || state.Errors != 0 || state.Dropped != 0 {
		t.Errorf("%+v", state)
	}
	f.model().judge()
}

func TestAMirrorThatFailsFailsNobody(t *testing.T) {
	f := labelled(t, mirrored(100), "fails")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go f.registry.mirror.run(ctx)
	f.answers(string(scored(0.25)), 1)
	f.until(func() bool { return f.registry.State()[0].Mirror.Errors == 1 })
}

func TestAMirrorIsAskedOnWhatIsSpare(t *testing.T) {
	f := labelled(t, mirrored(100), "v9", func(options *Options) {
		options.Slots = concurrency.New([]string{"ctr"}, concurrency.Limits{Concurrent: 2})
	})
	for range mostMirrored + 5 {
		f.answers(string(scored(0.25)), 1) // nobody takes them out of the queue
	}
	if got := f.registry.State()[0].Mirror; got.Dropped != 5 || got.Requests != 0 {
		t.Errorf("%+v", got)
	}
	slot, err := f.registry.slots.Enter(context.Background(), "ctr")
	f.must(err)
	f.registry.mirror.ask(<-f.registry.mirror.queue)
	if got := f.registry.State()[0].Mirror; got.Dropped != 6 || got.Requests != 0 {
		t.Errorf("no slot is spare: %+v", got)
	}
	slot.Leave()
	f.registry.mirror.ask(<-f.registry.mirror.queue)
	if got := f.registry.State()[0].Mirror; got.Dropped != 6 || got.Requests != 1 {
		t.Errorf("%+v", got)
	}
	large := copied{request: make([]byte, mostMirroredBytes)}
	if f.registry.mirror.reserve(large.size()) {
		t.Error("there is no room for so many bytes")
	}
}

func TestScoresAreTheLastColumnOfTheFirstOutput(t *testing.T) {
	for name, each := range map[string]struct {
		response []byte
		expected string
	}{
		"a vector":      {scored(0.5, 0.25), "[0.5 0.25]"},
		"no message":    {[]byte("\xff\xff"), "[]"},
		"nothing":       {nil, "[]"},
		"a matrix":      {matrix("scores", 2, 0.1, 0.5, 0.2, 0.25), "[0.5 0.25]"},
		"a first one":   {append(matrix("b", 1, 0.1), matrix("a", 1, 0.5)...), "[0.5]"},
		"ragged":        {matrix("a", 4, 0.1), "[]"},
		"no column":     {matrix("a", 0, 0.1), "[0.1]"},
		"more than all": {scored(make([]float32, 1000)...), "63"},
	} {
		found := []float32{}
		eachScore(each.response, func(score float32) { found = append(found, score) })
		if got := fmt.Sprint(found); got != each.expected && fmt.Sprint(len(found)) != each.expected {
			t.Errorf("%s: %s; expected %s", name, got, each.expected)
		}
	}
}

// matrix is a response with an output of columns, as its content.
func matrix(name string, columns int64, scores ...float32) []byte {
	tensor := &pb.TensorProto{Dtype: pb.DataType_DT_FLOAT, TensorShape: &pb.TensorShapeProto{
		Dim: []*pb.TensorShapeProto_Dim{{Size: int64(len(scores))}, {Size: columns}},
	}}
	for _, each := range scores {
		tensor.TensorContent = binary.LittleEndian.AppendUint32(tensor.TensorContent, math.Float32bits(each))
	}
	text, err := proto.Marshal(&pb.PredictResponse{Outputs: map[string]*pb.TensorProto{name: tensor}})
	if err != nil {
		panic(err)
	}
	return text
}

func FuzzScores(f *testing.F) {
	f.Add(scored(0.5))
	f.Add(matrix("a", 3, 1, 2, 3))
	f.Fuzz(func(t *testing.T, response []byte) {
		count := 0
		eachScore(response, func(float32) { count++ })
		if count > mostScores {
			t.Error(count)
		}
	})
}
