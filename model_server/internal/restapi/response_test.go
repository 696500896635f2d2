package restapi

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// typed writes one output of a PredictResponse, whose values are the field of a number; they come before its shape.
func typed(of dtype, dims []int64, values []byte) []byte {
	var shape []byte
	for _, size := range dims {
		shape = appendBytes(shape, dimField, appendVarint(nil, sizeField, uint64(size)))
	}
	tensor := appendBytes(appendVarint(slices.Clone(values), dtypeField, uint64(of)), shapeField, shape)
	return appendBytes(nil, outputsField, appendBytes(appendBytes(nil, keyField, []byte("x")), valueField, tensor))
}

func varints(field protowire.Number, values ...int64) []byte {
	var packed []byte
	for _, value := range values {
		packed = protowire.AppendVarint(packed, uint64(value))
	}
	return appendBytes(nil, field, packed)
}

func unpacked(field protowire.Number, values ...float32) []byte {
	var to []byte
	for _, value := range values {
		to = protowire.AppendFixed32(protowire.AppendTag(to, field, protowire.Fixed32Type), math.Float32bits(value))
	}
	return to
}

func TestValuesInTypedFieldsAreRead(t *testing.T) {
	floats := func(values ...float32) []byte { return appendBytes(nil, 5, numbers(t, values)) }
	for want, response := range map[string][]byte{
		"[[0.5, -1.0], [3.0, 4.0]]": typed(float32Type, []int64{2, 2}, floats(0.5, -1, 3, 4)),
		"[0.5, NaN, 0.25]":          typed(float32Type, []int64{3}, slices.Concat(floats(0.5), unpacked(5, float32(math.NaN()), 0.25))),
		"[[0.5], [0.5]]":            typed(float32Type, []int64{2, 1}, floats(0.5)),
		"[1.0, 2.0, 2.0]":           typed(float32Type, []int64{3}, floats(1, 2)),
		"2.0":                       typed(float32Type, nil, floats(2)),
		"[]":                        typed(float32Type, []int64{0}, nil),
		"[1, -2147483648]":          typed(int32Type, []int64{2}, varints(7, 1, -2147483648)),
		"[9007199254740993, -1]":    typed(int64Type, []int64{2}, varints(10, 9007199254740993, -1)),
		"[true, false, false]":      typed(boolType, []int64{3}, varints(11, 1, 0)),
		"[5, 6]":                    typed(int64Type, []int64{2}, slices.Concat(varints(10), appendVarint(nil, 10, 5), appendVarint(nil, 10, 6))),
	} {
		f := &fake{signatures: signed(age), response: response}
		if got := ask(t, f, http.MethodPost, path, `{"inputs": [1]}`).Body.String(); got != `{"outputs": `+want+"}\n" {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestTypedFieldsAreBoundedByTheShape(t *testing.T) {
	for want, response := range map[string][]byte{
		"with more values than its shape [1]": typed(int64Type, []int64{1}, varints(10, 1, 2)),
		"with 0 values":                       typed(int64Type, []int64{1}, nil),
		"with 0 values, which":                typed(int64Type, []int64{1}, varints(7, 1)), // the field of another type
		"with 1 values, which are not those":  typed(boolType, []int64{1 << 26}, varints(11, 1)),
		"which no message has room for":       typed(boolType, []int64{1 << 32}, varints(11, 1)),
		"is not protobuf":                     typed(float32Type, []int64{1}, appendBytes(nil, 5, []byte{1, 2})),
		"is not protobuf: unexpected EOF":     typed(int64Type, []int64{1}, appendBytes(nil, 10, []byte{0x80})),
	} {
		answer := ask(t, &fake{signatures: signed(age), response: response}, http.MethodPost, path, `{"inputs": [1]}`)
		if said := errorOf(t, answer); answer.Code != http.StatusInternalServerError || !strings.Contains(said, want) {
			t.Errorf("%d %s, want %s", answer.Code, said, want)
		}
	}
}
