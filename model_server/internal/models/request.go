package models

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of TensorFlow Serving's messages.
const (
	modelSpec    protowire.Number = 1 // of PredictRequest
	specName     protowire.Number = 1 // of ModelSpec, as the following
	specVersion  protowire.Number = 2
	specLabel    protowire.Number = 4
	wrappedValue protowire.Number = 1 // of Int64Value
)

// mostSpecBytes is far more than a name, a version and a signature take.
const mostSpecBytes = 16 << 10

// ReadRequest reads the model_spec of a serialized PredictRequest, and nothing else of it: what is there more than once
// is merged as protobuf does it. With it comes the request as a model takes it, which knows no labels of versions: the
// same bytes, or where a label is in them a copy without. The signature in it is for the model to read.
func ReadRequest(request []byte) (Spec, []byte, error) {
	var spec specReader
	size := 0
	err := eachField(request, func(each field) error {
		if !each.is(modelSpec) {
			return nil
		}
		if size += len(each.value); size > mostSpecBytes {
			return fmt.Errorf("model_spec has more than %d bytes", mostSpecBytes)
		}
		return eachField(each.value, spec.read)
	})
	if err == nil && spec.hasLabel {
		request, err = withoutLabel(request)
	}
	return spec.Spec, request, err
}

// specReader takes the fields of a ModelSpec as they come.
type specReader struct {
	Spec
	hasVersion bool
	hasLabel   bool
}

func (s *specReader) read(each field) error {
	switch {
	case each.is(specName):
		s.Name = string(each.value)
		return checkText("name", each.value)
	case each.is(specLabel):
		// Of a version and a label the last one counts.
		s.Version, s.hasVersion, s.hasLabel, s.Label = 0, false, true, string(each.value)
		return checkText("version_label", each.value)
	case each.is(specVersion):
		if !s.hasVersion {
			s.Version, s.hasVersion, s.Label = 0, true, ""
		}
		return eachField(each.value, func(each field) error {
			if each.number == wrappedValue && each.kind == protowire.VarintType {
				s.Version = int64(each.varint)
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

// withoutLabel copies a request, but for labels. Its model_spec, in pieces or not, is one, at the end.
func withoutLabel(request []byte) ([]byte, error) {
	copied := make([]byte, 0, len(request)+2*binary.MaxVarintLen32)
	var spec []byte
	err := eachField(request, func(each field) error {
		if !each.is(modelSpec) {
			copied = append(copied, each.whole...)
			return nil
		}
		return eachField(each.value, func(each field) error {
			if !each.is(specLabel) {
				spec = append(spec, each.whole...)
			}
			return nil
		})
	})
	copied = protowire.AppendTag(copied, modelSpec, protowire.BytesType)
	return protowire.AppendBytes(copied, spec), err
}

// field is one of a serialized message.
type field struct {
	number protowire.Number
	kind   protowire.Type
	// value is of bytes, texts and messages; varint is of numbers that are one.
	value  []byte
	varint uint64
	// whole is the field with its number.
	whole []byte
}

// is tells a field of bytes, a text or a message by its number. With another type it is an unknown one, as in protobuf.
func (f field) is(number protowire.Number) bool {
	return f.number == number && f.kind == protowire.BytesType
}

// eachField goes through the fields of a message, whose bytes are not copied.
func eachField(message []byte, do func(field) error) error {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return malformed(tag)
		}
		size := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if size < 0 {
			return malformed(size)
		}
		found := field{number: number, kind: kind, whole: message[:tag+size]}
		switch kind {
		case protowire.BytesType:
			found.value, _ = protowire.ConsumeBytes(message[tag:])
		case protowire.VarintType:
			found.varint, _ = protowire.ConsumeVarint(message[tag:])
		}
		if err := do(found); err != nil {
			return err
		}
		message = message[tag+size:]
	}
	return nil
}

func malformed(code int) error {
	return fmt.Errorf("it is no protobuf message: %w", protowire.ParseError(code))
}
