package grpcapi

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of TensorFlow Serving's messages.
const (
	responseModelSpec protowire.Number = 2 // of PredictResponse
	specName          protowire.Number = 1 // of ModelSpec
	specVersion       protowire.Number = 2
	wrappedValue      protowire.Number = 1 // of Int64Value
)

// answeredBy is a piece of a PredictResponse that, at its end, says which model and version it is of: protobuf merges
// it into the model_spec that is there.
func answeredBy(name string, version int64) []byte {
	wrapped := protowire.AppendTag(nil, wrappedValue, protowire.VarintType)
	wrapped = protowire.AppendVarint(wrapped, uint64(version))
	spec := protowire.AppendTag(nil, specName, protowire.BytesType)
	spec = protowire.AppendString(spec, name)
	spec = protowire.AppendTag(spec, specVersion, protowire.BytesType)
	spec = protowire.AppendBytes(spec, wrapped)
	field := protowire.AppendTag(nil, responseModelSpec, protowire.BytesType)
	return protowire.AppendBytes(field, spec)
}
