package grpcapi

import (
	"fmt"
	"unicode/utf8"

	"afo/model_server/internal/models"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of TensorFlow Serving's messages.
const (
	requestModelSpec  protowire.Number = 1 // of PredictRequest
	responseModelSpec protowire.Number = 2 // of PredictResponse
	specName          protowire.Number = 1 // of ModelSpec, as the following
	specVersion       protowire.Number = 2
	specLabel         protowire.Number = 4
	wrappedValue      protowire.Number = 1 // of Int64Value
)

// mostSpecBytes is far more than a name, a version and a signature take.
const mostSpecBytes = 16 << 10

// specOf reads the model_spec of a serialized PredictRequest, and nothing else of it: what is there more than once is
// merged as protobuf does it. The signature in it is for the model to read.
func specOf(request []byte) (models.Spec, error) {
	var spec specReader
	size := 0
	err := eachField(request, func(number protowire.Number, value []byte, _ uint64) error {
		if number != requestModelSpec || value == nil {
			return nil
		}
		if size += len(value); size > mostSpecBytes {
			return fmt.Errorf("model_spec has more than %d bytes", mostSpecBytes)
		}
		return eachField(value, spec.read)
	})
	return spec.Spec, err
}

// specReader takes the fields of a ModelSpec as they come.
type specReader struct {
	models.Spec
	hasVersion bool
}

func (s *specReader) read(number protowire.Number, value []byte, _ uint64) error {
	if value == nil {
		return nil
	}
	switch number {
	case specName:
		s.Name = string(value)
		return checkText("name", value)
	case specLabel:
		// Of a version and a label the last one counts.
		s.Version, s.hasVersion, s.Label = 0, false, string(value)
		return checkText("version_label", value)
	case specVersion:
		if !s.hasVersion {
			s.Version, s.hasVersion, s.Label = 0, true, ""
		}
		return eachField(value, func(number protowire.Number, value []byte, varint uint64) error {
			if number == wrappedValue && value == nil {
				s.Version = int64(varint)
			}
			return nil
		})
	}
	return nil
}

func checkText(name string, value []byte) error {
	if !utf8.Valid(value) {
		return fmt.Errorf("model_spec.%s is no UTF-8", name)
	}
	return nil
}

// eachField goes through the fields of a message that are bytes (not nil, even where empty) or a varint (value nil).
func eachField(message []byte, do func(number protowire.Number, value []byte, varint uint64) error) error {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return malformed(tag)
		}
		size := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if size < 0 {
			return malformed(size)
		}
		var err error
		switch kind {
		case protowire.BytesType:
			value, _ := protowire.ConsumeBytes(message[tag:])
			err = do(number, value[:len(value):len(value)], 0)
		case protowire.VarintType:
			varint, _ := protowire.ConsumeVarint(message[tag:])
			err = do(number, nil, varint)
		}
		if err != nil {
			return err
		}
		message = message[tag+size:]
	}
	return nil
}

func malformed(code int) error {
	return fmt.Errorf("it is no protobuf message: %w", protowire.ParseError(code))
}

// answeredBy is a piece of a PredictResponse that, at its end, says which model and version it is of: protobuf merges
// it into the model_spec that is there.
func answeredBy(name string, version int64) []byte {
	spec := protowire.AppendTag(nil, specName, protowire.BytesType)
	spec = protowire.AppendString(spec, name)
	wrapped := protowire.AppendTag(nil, wrappedValue, protowire.VarintType)
	wrapped = protowire.AppendVarint(wrapped, uint64(version))
	spec = protowire.AppendTag(spec, specVersion, protowire.BytesType)
	spec = protowire.AppendBytes(spec, wrapped)
	field := protowire.AppendTag(nil, responseModelSpec, protowire.BytesType)
	return protowire.AppendBytes(field, spec)
}
