package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"afo/model_server/internal/rollout"
)

// Servable is a SavedModel that was loaded. Any number of goroutines call Process; Close comes last, alone.
type Servable interface {
	Process(request []byte) ([]byte, error)
	// Info is what get_serving_model_info tells: JSON with the signatures and, of an export of afo, its step.
	Info() ([]byte, error)
	Close()
}

// Loader loads the SavedModel in a directory.
type Loader func(directory string) (Servable, error)

// info is what is read of a model's own description; keys that are not listed are its own business.
type info struct {
	Signatures map[string]Signature `json:"signatures"`
	RawStep    json.RawMessage      `json:"step"`
	// Counts of the processor; one that is no whole number is not told.
	Layers           json.RawMessage `json:"layers"`
	TableBytes       json.RawMessage `json:"table_bytes"`
	SharedTableBytes json.RawMessage `json:"shared_table_bytes"`
}

// version is one loaded version. It is closed once it is retired and the last request that uses it has ended.
type version struct {
	candidate
	info
	// Step is that of the training, 0 where stepUnknown says why there is none.
	Step        int64
	stepUnknown error
	// trained is when the newest gradient in it was applied; zero: not known.
	trained  time.Time
	model    Servable
	observed *observed
	sharing  sharing
	// refs counts the requests that use it, and 1 for being served. At 0 it never rises again, so that whoever counts
	// it down to 0 is the last one.
	refs    atomic.Int64
	drained chan struct{}
}

func newVersion(of candidate, model Servable, now time.Time) (*version, error) {
	v := &version{candidate: of, model: model, drained: make(chan struct{}), observed: newObserved(now), trained: trainedAt(of.path)}
	text, err := model.Info()
	if err != nil {
		return nil, fmt.Errorf("it does not describe itself: %w", err)
	}
	if err := json.Unmarshal(text, &v.info); err != nil {
		return nil, fmt.Errorf("its description is not the JSON that is expected: %w", err)
	}
	v.Step, v.stepUnknown = stepOf(v.RawStep)
	v.refs.Store(1)
	return v, nil
}

// stepOf reads the step that an afo.json tells. It describes the model: one that is wrong keeps nothing from serving.
func stepOf(text json.RawMessage) (int64, error) {
	if len(text) == 0 {
		return 0, errors.New("assets.extra/afo.json is not there, or is no JSON object with a step")
	}
	step, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || step < 0 {
		return 0, fmt.Errorf("step of assets.extra/afo.json is %.40s; allowed: an integer from 0 to 2^63-1", text)
	}
	return step, nil
}

// trainedAt reads the time of the newest gradient that an afo.json tells. One that is wrong keeps nothing from serving.
func trainedAt(directory string) time.Time {
	text, err := description(directory)
	var export struct {
		TrainedAt float64 `json:"trained_at"`
	}
	if err != nil || json.Unmarshal(text, &export) != nil || !(export.TrainedAt > 0 && export.TrainedAt < maxUnix) {
		return time.Time{}
	}
	return time.UnixMicro(int64(export.TrainedAt * 1e6))
}

// maxUnix are seconds that a time in microseconds has room for.
const maxUnix = 1 << 42

// count is a whole number of the processor's description; nil: none.
func count(text json.RawMessage) *int64 {
	number, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return nil
	}
	return &number
}

// acquire makes the version last until release. False: it is retired, and the list it was found in is old.
func (v *version) acquire() bool {
	for {
		refs := v.refs.Load()
		if refs == 0 {
			return false
		}
		if v.refs.CompareAndSwap(refs, refs+1) {
			return true
		}
	}
}

func (v *version) release() {
	if v.refs.Add(-1) == 0 {
		close(v.drained)
	}
}

// Events are told what becomes of versions, one after the other for each model.
type Events interface {
	State(model string, version int64, state State)
	Loaded(model string, version int64, took time.Duration, err error)
	// Available comes with the step of the training (0: unknown), and the times of the SavedModel and of its newest
	// gradient (zero: unknown).
	Available(model string, version int64, step int64, exported, trained time.Time)
	// Gone is the last of a version.
	Gone(model string, version int64)
	RolloutEvents
}

// RolloutEvents are told how versions come to answer.
type RolloutEvents interface {
	// Canary has begun, passed, was rejected, or ended otherwise.
	Canary(model string, result string)
	// Rejected is a version that is not taken up again by itself, with the cause.
	Rejected(model string, cause rollout.Cause)
	// Pinned is whether new versions wait for a call.
	Pinned(model string, pinned bool)
	// Mirrored is a request that was asked again (ok, error) or was to be (dropped).
	Mirrored(model string, result string)
	// Drift is the shift of scores of a canary or a mirror; nil: not known.
	Drift(model string, of string, index *float64)
}
