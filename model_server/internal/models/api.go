// Package models keeps the versions of every model that is served: it finds them on disk, loads and warms up new ones
// beside those that answer, swaps, drains and unloads, and bounds how many requests are computed at once.
package models

import (
	"context"

	"google.golang.org/grpc/codes"
)

// Spec says what a request asks for. Version 0 and Label "" mean: the newest version that is available.
type Spec struct {
	Name    string
	Version int64
	Label   string
}

// Predictor answers requests for models by name. Its errors are gRPC statuses: NotFound (no such model, version or
// label; the message lists what there is), InvalidArgument (the request), Unavailable (no version is available yet),
// ResourceExhausted (too many at once), DeadlineExceeded and Canceled (the caller's context), Internal (the model).
// Any number of goroutines may call at once.
type Predictor interface {
	// Predict answers a serialized PredictRequest with a serialized PredictResponse, computed by the version returned.
	// With an error it returns the version that was asked for, 0 where there is none.
	Predict(ctx context.Context, spec Spec, request []byte) (response []byte, version int64, err error)
	// Signatures are those of the version that Predict would choose. They are everybody's: nobody changes them.
	Signatures(spec Spec) (signatures map[string]Signature, version int64, err error)
	// Status tells the state of one version, or of all for version 0, the newest first.
	Status(name string, version int64) ([]VersionStatus, error)
	// Names of the configured models, sorted.
	Names() []string
	// Ready reports whether every model has an available version and the server is not draining.
	Ready() bool
}

// TensorInfo is the type and the shape of an input or output.
type TensorInfo struct {
	// DType is the name of a tensorflow.DataType, such as "DT_FLOAT".
	DType string `json:"dtype"`
	// Shape has -1 where any size will do; nil is an unknown rank, which is not the empty shape of a scalar.
	Shape []int64 `json:"shape"`
}

// Signature is one function of a model.
type Signature struct {
	MethodName string                `json:"method_name"`
	Inputs     map[string]TensorInfo `json:"inputs"`
	Outputs    map[string]TensorInfo `json:"outputs"`
}

// VersionStatus is what TensorFlow Serving's ModelVersionStatus tells of a version.
type VersionStatus struct {
	Version int64
	State   State
	// Code and Message say why a version ended; OK and "" where nothing went wrong.
	Code    codes.Code
	Message string
}

// State of a version, with the numbers of TensorFlow Serving's ModelVersionStatus.State.
type State int32

// A version goes through these in order. A load that fails goes from StateLoading to StateEnd.
const (
	StateUnknown   State = 0
	StateStart     State = 10
	StateLoading   State = 20
	StateAvailable State = 30
	StateUnloading State = 40
	StateEnd       State = 50
)

// String is the name that TensorFlow Serving gives the state.
func (s State) String() string {
	switch s {
	case StateStart:
		return "START"
	case StateLoading:
		return "LOADING"
	case StateAvailable:
		return "AVAILABLE"
	case StateUnloading:
		return "UNLOADING"
	case StateEnd:
		return "END"
	default:
		return "UNKNOWN"
	}
}
