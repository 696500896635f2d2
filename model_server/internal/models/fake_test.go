package models

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"afo/model_server/internal/concurrency"
	"afo/model_server/internal/config"
	"afo/model_server/internal/logtest"
	"afo/model_server/internal/rollout"
	pb "afo/model_server/internal/tfserving"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// fake is a version that answers with the text of its saved_model.pb, and knows whether it is used when it must not be.
type fake struct {
	text   string
	of     *fakes
	using  atomic.Int64
	closed atomic.Bool
}

func (f *fake) Process(request []byte) ([]byte, error) {
	f.using.Add(1)
	defer f.using.Add(-1)
	if f.closed.Load() {
		return nil, errors.New("it is closed")
	}
	if string(request) == "wait" {
		f.of.entered <- struct{}{}
		<-f.of.goOn
	}
	if strings.HasSuffix(string(request), "bad") {
		return nil, errors.New("a bad request")
	}
	f.of.processed.Add(1)
	return f.answer()
}

// answer is the text itself, but for versions that answer otherwise: "fails", "refuses", "slow" and "scores 0.25".
func (f *fake) answer() ([]byte, error) {
	switch f.text {
	case "fails":
		return nil, status.Error(codes.Internal, "a bad model")
	case "refuses":
		return nil, status.Error(codes.InvalidArgument, "other inputs")
	case "slow":
		time.Sleep(5 * time.Millisecond)
		return scored(0.25), nil
	}
	var score float32
	if _, err := fmt.Sscanf(f.text, "scores %g", &score); err == nil {
		return scored(score), nil
	}
	return []byte(f.text), nil
}

// scored is a PredictResponse with a score.
func scored(scores ...float32) []byte {
	response := &pb.PredictResponse{Outputs: map[string]*pb.TensorProto{"probabilities": {
		Dtype: pb.DataType_DT_FLOAT, FloatVal: scores,
		TensorShape: &pb.TensorShapeProto{Dim: []*pb.TensorShapeProto_Dim{{Size: int64(len(scores))}}},
	}}}
	text, err := proto.Marshal(response)
	if err != nil {
		panic(err)
	}
	return text
}

func (f *fake) Info() ([]byte, error) {
	info := map[string]any{"signatures": map[string]any{"serving_default": map[string]any{"method_name": f.text}}}
	if f.of.step != "" {
		info["step"] = json.RawMessage(f.of.step)
	}
	shared := f.of.shared.Load()
	info["shared_table_bytes"] = shared
	f.of.described.Add(1)
	if shared < 0 {
		f.using.Add(1)
		defer f.using.Add(-1)
		<-f.of.goOn
	}
	return json.Marshal(info)
}

func (f *fake) Close() {
	if f.closed.Swap(true) || f.using.Load() != 0 {
		f.of.wrong.Store(true)
	}
	f.of.closedAt.Store(int64(nice(f.of.t)))
	f.of.closes.Add(1)
}

// fakes are the models of a test, its directory and its clock.
type fakes struct {
	t         *testing.T
	base      string
	registry  *Registry
	processed atomic.Int64
	described atomic.Int64
	// shared are bytes of tables; below 0 they are told once the test goes on.
	shared atomic.Int64
	loads  atomic.Int64
	closes atomic.Int64
	// closedAt is the nice value of the thread that closed the last one.
	closedAt atomic.Int64
	// wrong: a version was closed twice or while it was used.
	wrong   atomic.Bool
	entered chan struct{}
	loading chan struct{}
	goOn    chan struct{}
	mutex   sync.Mutex
	clock   time.Time
	log     logtest.Log
	// step is what the description of each version has, as JSON; "": none.
	step string
	// events are how versions came to answer.
	events []string
}

func (f *fakes) happened(event string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.events = append(f.events, event)
}

// said counts the lines of the log that hold a text.
func (f *fakes) said(text string) int {
	count := 0
	for line := range strings.Lines(f.log.String()) {
		if strings.Contains(line, text) {
			count++
		}
	}
	return count
}

func (f *fakes) load(directory string) (Servable, error) {
	f.loads.Add(1)
	text, err := os.ReadFile(filepath.Join(directory, savedModel))
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(string(text), "broken") {
		return nil, errors.New("it is " + string(text))
	}
	if string(text) == "hangs" {
		f.loading <- struct{}{}
		<-f.goOn
	}
	return &fake{text: string(text), of: f}, nil
}

func (f *fakes) now() time.Time {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.clock
}

func (f *fakes) pass(by time.Duration) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.clock = f.clock.Add(by)
}

func (f *fakes) State(string, int64, State)                           {}
func (f *fakes) Loaded(string, int64, time.Duration, error)           {}
func (f *fakes) Available(string, int64, int64, time.Time, time.Time) {}
func (f *fakes) Canary(_ string, result string)                       { f.happened("canary " + result) }
func (f *fakes) Rejected(_ string, cause rollout.Cause)               { f.happened("rejected by " + string(cause)) }
func (f *fakes) Pinned(string, bool)                                  {}
func (f *fakes) Mirrored(_ string, result string)                     { f.happened("mirrored " + result) }
func (f *fakes) Drift(string, string, *float64)                       {}
func (f *fakes) Gone(string, int64)                                   {}
func (f *fakes) model() *model                                        { return f.registry.models["ctr"] }
func (f *fakes) look()                                                { f.model().look(context.Background()) }
func (f *fakes) ask(spec Spec, text string) (string, int64, error) {
	answer, version, err := f.registry.Predict(context.Background(), spec, []byte(text))
	return string(answer), version, err
}

func (f *fakes) rollback(name string, version int64, by string) error {
	_, err := f.registry.Rollback(name, version, by)
	return err
}

func (f *fakes) promote(name string, version int64, full bool, by string) error {
	_, err := f.registry.Promote(name, version, full, by)
	return err
}

// newFakes has one model, ctr, which is looked for when the test says so.
func newFakes(t *testing.T, policy config.Versions, change ...func(*Options)) *fakes {
	f := &fakes{
		t: t, base: t.TempDir(), entered: make(chan struct{}, 100), loading: make(chan struct{}, 100), goOn: make(chan struct{}), clock: time.Unix(1000, 0), step: "7",
	}
	options := Options{
		Models: []config.Model{{Name: "ctr", BasePath: f.base, Versions: policy, VersionLabels: map[string]int64{"stable": 1, "next": 9}}},
		Load:   f.load, Slots: concurrency.New([]string{"ctr"}, concurrency.Limits{Concurrent: 8, Queued: 1000}), Poll: time.Millisecond, LoadBehind: true,
		Log: slog.New(slog.NewTextHandler(&f.log, nil)), Events: f, Changed: func() {}, Now: f.now,
	}
	for _, each := range change {
		each(&options)
	}
	f.registry = New(options)
	return f
}

// write puts a version there whole, as an export does.
func (f *fakes) write(version int64, text string) {
	f.t.Helper()
	beside := filepath.Join(f.base, "tmp")
	target := filepath.Join(f.base, fmt.Sprint(version))
	f.must(os.MkdirAll(beside, 0o700))
	f.must(os.WriteFile(filepath.Join(beside, savedModel), []byte(text), 0o600))
	f.must(os.RemoveAll(target))
	f.must(os.Rename(beside, target))
}

func (f *fakes) remove(version int64) {
	f.t.Helper()
	f.must(os.RemoveAll(filepath.Join(f.base, fmt.Sprint(version))))
}

func (f *fakes) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// answers checks what the newest version answers.
func (f *fakes) answers(text string, version int64) {
	f.t.Helper()
	if got, number, err := f.ask(Spec{Name: "ctr"}, "x"); err != nil || got != text || number != version {
		f.t.Errorf("%q of version %d, %v; expected %q of %d", got, number, err, text, version)
	}
}

// state checks the state of one version, and that its message holds a text.
func (f *fakes) state(version int64, state State, says string) {
	f.t.Helper()
	all, err := f.registry.Status("ctr", version)
	if err != nil || len(all) != 1 || all[0].State != state || !strings.Contains(all[0].Message, says) {
		f.t.Errorf("%v, %v; expected %v %q", all, err, state, says)
	}
}

// until waits for a condition.
func (f *fakes) until(is func() bool) {
	f.t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatal("it did not come to that")
		}
	}
}
