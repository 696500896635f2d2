// Package processor runs models by libafo_processor.so, which it opens with TensorFlow's libraries when the server
// starts.
//
// Threads. A call runs on the thread of its goroutine, on a stack of C, and with enable_inline_execute the whole
// request is computed there: Go has as many such threads as there are calls at once, which the limit of concurrent
// requests bounds. A call cannot be interrupted. TensorFlow's own threads are unknown to Go and never call it.
//
// Signals, as observed with TensorFlow 2.21 under load:
//   - TensorFlow handles none, so Go's handlers stay. SIGTERM and SIGINT reach the server whichever thread the kernel
//     picks, TensorFlow's as well; Go sets SA_ONSTACK and SA_RESTART, so that what C waits for goes on
//     (but for sleeps, which no request has).
//   - SIGURG, by which Go preempts goroutines, does no harm: hundreds a second, sent from outside to a server that
//     answers and swaps versions, failed no request.
//   - SIGSEGV within a call ends the process with Go's trace, which names the call, and status 2; with
//     GOTRACEBACK=crash by SIGABRT, which leaves a core where the limits allow one. On a thread of TensorFlow the process
//     dies by SIGSEGV itself: a core, and no trace. Never does it go on.
package processor

/*
#cgo LDFLAGS: -ldl
#cgo noescape afo_process
#cgo noescape afo_free_output
#include <stdlib.h>
#include "calls.h"
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// tensorFlow is what the processor is linked with, in the order in which they need each other. Opened before, they
// are found by their names, wherever the processor lies.
var tensorFlow = []string{"libtensorflow_framework.so.2", "libtensorflow_cc.so.2"}

// Library is the processor, opened. Any number of goroutines may use it at once.
type Library struct {
	calls   *C.afo_calls // allocated by C, so that it does not move and may be passed
	options Options
}

// Options are the keys of a model's configuration (docs/serving.md) that all models share.
type Options struct {
	IntraOpThreads      int    `json:"intra_op_parallelism_threads"`
	InterOpThreads      int    `json:"inter_op_parallelism_threads"`
	EnableInlineExecute bool   `json:"enable_inline_execute"`
	SessionNum          int    `json:"session_num,omitempty"`
	SessionPolicy       string `json:"select_session_policy,omitempty"`
	CPUSets             string `json:"cpusets,omitempty"`
	// AskersCompute: no threads are made for a model that compute requests, as config.Processor has it.
	AskersCompute bool `json:"-"`
}

// Open opens TensorFlow's libraries in the directory tensorflow, then the processor at path. They stay open.
func Open(path, tensorflow string, options Options) (*Library, error) {
	for _, name := range tensorFlow {
		file := C.CString(filepath.Join(tensorflow, name))
		defer C.free(unsafe.Pointer(file))
		if wrong := taken(C.afo_open(file)); wrong != "" {
			return nil, fmt.Errorf("a library of TensorFlow 2.21 cannot be loaded (processor.tensorflow is %s): %s", tensorflow, wrong)
		}
	}
	file := C.CString(path)
	defer C.free(unsafe.Pointer(file))
	calls := (*C.afo_calls)(C.calloc(1, C.sizeof_afo_calls))
	if wrong := taken(C.afo_open_processor(file, calls)); wrong != "" {
		C.free(unsafe.Pointer(calls))
		return nil, fmt.Errorf("the processor cannot be loaded beside the TensorFlow in %s (processor.library is %s): %s", tensorflow, path, wrong)
	}
	return &Library{calls: calls, options: options}, nil
}

// taken is a text of C, freed; "" for none.
func taken(text *C.char) string {
	if text == nil {
		return ""
	}
	defer C.free(unsafe.Pointer(text))
	return strings.ToValidUTF8(C.GoString(text), "\uFFFD")
}

// Model is a SavedModel that answers. Any number of goroutines may call Process and Info; Close comes last, alone.
type Model struct {
	calls *C.afo_calls
	model unsafe.Pointer
	// inline: a request is computed on the thread of its call, and nowhere else.
	inline        bool
	requests, cpu atomic.Int64 // nanoseconds
}

// Load loads the SavedModel in a directory. It takes as long as the model is large, and cannot be interrupted.
func (l *Library) Load(directory string) (*Model, error) {
	text, err := json.Marshal(struct {
		Directory string `json:"savedmodel_dir"`
		Options
	}{directory, l.options})
	if err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w", directory, err)
	}
	config := C.CString(string(text))
	defer C.free(unsafe.Pointer(config))
	var wrong *C.char
	model := C.afo_initialize(l.calls, config, &wrong)
	if model == nil {
		return nil, errors.New(taken(wrong))
	}
	return &Model{calls: l.calls, model: model, inline: l.options.AskersCompute && l.options.IntraOpThreads == 1}, nil
}

// Process answers a serialized PredictRequest. An error is a gRPC status with the library's sentence: InvalidArgument
// where the request is at fault, Internal where the model is.
func (m *Model) Process(request []byte) ([]byte, error) {
	if len(request) > math.MaxInt32 {
		return nil, status.Errorf(codes.InvalidArgument, "the request has %d bytes; allowed: %d", len(request), math.MaxInt32)
	}
	if request == nil {
		request = []byte{} // null is no request, which is another thing than an empty one
	}
	// The bytes hold no pointers, and the library keeps none to them.
	output := C.afo_process(m.calls, m.model, unsafe.Pointer(unsafe.SliceData(request)), C.int(len(request)))
	m.requests.Add(1)
	m.cpu.Add(int64(output.cpu))
	return m.taken(output)
}

// MeanCPU is the processor time of a request; false: none was computed, or other threads compute them too.
func (m *Model) MeanCPU() (time.Duration, bool) {
	requests := m.requests.Load()
	if !m.inline || requests == 0 {
		return 0, false
	}
	return time.Duration(m.cpu.Load() / requests), true
}

// Info is what the model says of itself, as JSON.
func (m *Model) Info() ([]byte, error) { return m.taken(C.afo_info(m.calls, m.model)) }

// Close gives the model back. No other call may be under way, or follow.
func (m *Model) Close() {
	C.afo_finalize(m.calls, m.model)
	m.model = nil
}

// taken copies an output into Go's memory, and gives it back.
func (m *Model) taken(output C.afo_output) ([]byte, error) {
	if output.data == nil {
		return nil, status.Errorf(codes.Internal, "the processor had no answer (status %d)", int(output.status))
	}
	bytes := C.GoBytes(output.data, output.size)
	C.afo_free_output(m.calls, output.data)
	switch output.status {
	case 200:
		return bytes, nil
	case 400:
		return nil, status.Error(codes.InvalidArgument, textOf(bytes))
	default:
		return nil, status.Error(codes.Internal, textOf(bytes))
	}
}

// textOf is a message as gRPC and JSON can carry it.
func textOf(bytes []byte) string { return strings.ToValidUTF8(string(bytes), "\uFFFD") }
