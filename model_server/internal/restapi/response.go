package restapi

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// outputsField is that of a PredictResponse.
const outputsField = protowire.Number(1)

// output is a tensor of numbers of an answer.
type output struct {
	of   dtype
	dims []int64
	// As tensor_content has it, whichever field it came in.
	content []byte
}

// widths are the bytes of an element.
var widths = map[dtype]int{float32Type: 4, int32Type: 4, int64Type: 8, boolType: 1}

// badAnswer is what is wrong with an answer of the processor, which is no fault of the request.
func badAnswer(format string, arguments ...any) error {
	return status.Errorf(codes.Internal, "the model's answer "+format, arguments...)
}

// fields calls each at every field of a message; of those that are numbers, and of bytes (else nil), with their value.
func fields(message []byte, each func(field protowire.Number, number uint64, bytes []byte) error) error {
	for len(message) > 0 {
		field, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return badAnswer("is not protobuf: %v", protowire.ParseError(size))
		}
		message = message[size:]
		var number uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(message)
		case protowire.Fixed32Type:
			var fixed uint32
			fixed, size = protowire.ConsumeFixed32(message)
			number = uint64(fixed)
		case protowire.BytesType:
			bytes, size = protowire.ConsumeBytes(message)
		default:
			size = protowire.ConsumeFieldValue(field, kind, message)
		}
		if size < 0 {
			return badAnswer("is not protobuf: %v", protowire.ParseError(size))
		}
		message = message[size:]
		if err := each(field, number, bytes); err != nil {
			return err
		}
	}
	return nil
}

// parseOutputs reads the outputs of a PredictResponse.
func parseOutputs(response []byte) (map[string]output, error) {
	outputs := map[string]output{}
	err := fields(response, func(field protowire.Number, _ uint64, entry []byte) error {
		if field != outputsField {
			return nil
		}
		var name string
		var tensor []byte
		err := fields(entry, func(field protowire.Number, _ uint64, bytes []byte) error {
			switch field {
			case keyField:
				name = string(bytes)
			case valueField:
				tensor = bytes
			}
			return nil
		})
		if err != nil {
			return err
		}
		outputs[name], err = parseOutput(name, tensor)
		return err
	})
	if err == nil && len(outputs) == 0 {
		err = badAnswer("has no outputs")
	}
	return outputs, err
}

// typedFields have an element each in a TensorProto, where it has no tensor_content.
var typedFields = map[dtype]protowire.Number{float32Type: 5, int32Type: 7, int64Type: 10, boolType: 11}

func parseOutput(name string, tensor []byte) (output, error) {
	var parsed output
	err := fields(tensor, func(field protowire.Number, number uint64, bytes []byte) error {
		var err error
		switch field {
		case dtypeField:
			parsed.of = dtype(number)
		case shapeField:
			parsed.dims, err = parseShape(bytes)
		case contentField:
			parsed.content = bytes
		}
		return err
	})
	if err != nil {
		return parsed, err
	}
	width, ok := widths[parsed.of]
	if !ok {
		return parsed, badAnswer("has the output %s of data type %d, which is not written as JSON", quoted(name), parsed.of)
	}
	count, ok := elements(parsed.dims, math.MaxInt32/width)
	if !ok {
		return parsed, badAnswer("has the output %s of the shape %v, which no message has room for", quoted(name), parsed.dims)
	}
	if len(parsed.content) == 0 && count > 0 {
		return parsed, parsed.readTyped(name, tensor, count)
	}
	if len(parsed.content) != count*width {
		return parsed, badAnswer("has the output %s with %d bytes, which are not those of its shape %v", quoted(name), len(parsed.content), parsed.dims)
	}
	return parsed, nil
}

// elements of a shape, of which there are at most so many.
func elements(dims []int64, most int) (int, bool) {
	count := int64(1)
	if slices.Contains(dims, 0) {
		count = 0
	}
	for _, size := range dims {
		// Divided before it is multiplied: the sizes of a shape may overflow.
		if size < 0 || count > 0 && count > int64(most)/size {
			return 0, false
		}
		count *= size
	}
	return int(count), true
}

// mostRepeated is how many elements one value may stand for: a small answer must not become a large one.
const mostRepeated = 1 << 24

// readTyped reads the field of the output's type, packed or not. It has a value for each element, or fewer, of which
// the last one stands for all that are missing.
func (o *output) readTyped(name string, tensor []byte, count int) error {
	width := widths[o.of]
	// Each value has a byte or more.
	o.content = make([]byte, 0, min(count, len(tensor))*width)
	add := func(number uint64) error {
		if len(o.content) == count*width {
			return badAnswer("has the output %s with more values than its shape %v", quoted(name), o.dims)
		}
		o.addValue(number)
		return nil
	}
	err := fields(tensor, func(field protowire.Number, number uint64, packed []byte) error {
		if field != typedFields[o.of] {
			return nil
		}
		if packed == nil {
			return add(number)
		}
		return unpack(packed, o.of == float32Type, add)
	})
	if err != nil {
		return err
	}
	missing := count - len(o.content)/width
	if missing == count || missing > mostRepeated {
		return badAnswer("has the output %s with %d values, which are not those of its shape %v", quoted(name), count-missing, o.dims)
	}
	last := o.content[len(o.content)-width:]
	o.content = append(o.content, bytes.Repeat(last, missing)...)
	return nil
}

// unpack calls each at the numbers of a packed field.
func unpack(packed []byte, fixed bool, each func(uint64) error) error {
	for len(packed) > 0 {
		var number uint64
		var size int
		if fixed {
			var bits uint32
			bits, size = protowire.ConsumeFixed32(packed)
			number = uint64(bits)
		} else {
			number, size = protowire.ConsumeVarint(packed)
		}
		if size < 0 {
			return badAnswer("is not protobuf: %v", protowire.ParseError(size))
		}
		packed = packed[size:]
		if err := each(number); err != nil {
			return err
		}
	}
	return nil
}

// addValue adds an element as tensor_content has it.
func (o *output) addValue(number uint64) {
	switch o.of {
	case int64Type:
		o.content = binary.LittleEndian.AppendUint64(o.content, number)
	case boolType:
		value := byte(0)
		if number != 0 {
			value = 1
		}
		o.content = append(o.content, value)
	default:
		o.content = binary.LittleEndian.AppendUint32(o.content, uint32(number))
	}
}

func parseShape(message []byte) ([]int64, error) {
	dims := []int64{}
	err := fields(message, func(field protowire.Number, _ uint64, dim []byte) error {
		if field != dimField {
			return nil
		}
		var size int64
		err := fields(dim, func(field protowire.Number, number uint64, _ []byte) error {
			if field == sizeField {
				size = int64(number)
			}
			return nil
		})
		dims = append(dims, size)
		return err
	})
	return dims, err
}

// appendColumns writes the answer to `inputs`: each output whole, and one alone without its name.
func appendColumns(to []byte, outputs map[string]output) []byte {
	to = append(to, `{"outputs": `...)
	if len(outputs) == 1 {
		for _, only := range outputs {
			to, _ = only.appendValues(to, only.dims, only.content)
		}
		return append(to, "}\n"...)
	}
	for i, name := range sortedKeys(outputs) {
		to = appendKey(to, i, name)
		one := outputs[name]
		to, _ = one.appendValues(to, one.dims, one.content)
	}
	return append(to, "}}\n"...)
}

// appendRows writes the answer to `instances`: a row of each output in each element, and one alone without its name.
func appendRows(to []byte, outputs map[string]output) ([]byte, error) {
	names, rows := sortedKeys(outputs), int64(-1)
	for _, name := range names {
		dims := outputs[name].dims
		if len(dims) == 0 || rows >= 0 && dims[0] != rows {
			return nil, status.Errorf(codes.InvalidArgument, "the output %s has the shape %v, without a row for each of the others': "+
				"such outputs are asked for with `inputs`, not `instances`", quoted(name), dims)
		}
		rows = dims[0]
	}
	to = append(to, `{"predictions": [`...)
	for row := range rows {
		if row > 0 {
			to = append(to, ", "...)
		}
		for i, name := range names {
			one := outputs[name]
			if len(names) > 1 {
				to = appendKey(to, i, name)
			}
			to, one.content = one.appendValues(to, one.dims[1:], one.content)
			outputs[name] = one
		}
		if len(names) > 1 {
			to = append(to, '}')
		}
	}
	return append(to, "]}\n"...), nil
}

// appendKey writes the i-th key of an object.
func appendKey(to []byte, i int, name string) []byte {
	if i == 0 {
		to = append(to, '{')
	} else {
		to = append(to, ", "...)
	}
	key, _ := json.Marshal(name) // of a string: it has no errors
	return append(append(to, key...), ": "...)
}

// appendValues writes nested lists of the first elements of content, and returns the others.
func (o output) appendValues(to []byte, dims []int64, content []byte) ([]byte, []byte) {
	if len(dims) == 0 {
		return o.appendValue(to, content), content[widths[o.of]:]
	}
	to = append(to, '[')
	for i := range dims[0] {
		if i > 0 {
			to = append(to, ", "...)
		}
		to, content = o.appendValues(to, dims[1:], content)
	}
	return append(to, ']'), content
}

func (o output) appendValue(to, content []byte) []byte {
	switch o.of {
	case float32Type:
		return appendFloat(to, math.Float32frombits(binary.LittleEndian.Uint32(content)))
	case int32Type:
		return strconv.AppendInt(to, int64(int32(binary.LittleEndian.Uint32(content))), 10)
	case int64Type:
		return strconv.AppendInt(to, int64(binary.LittleEndian.Uint64(content)), 10)
	}
	return strconv.AppendBool(to, content[0] != 0)
}

// appendFloat writes the shortest text that reads back as the same float, and as TensorFlow Serving does: `.0` to a
// whole one, so that a list is of one type for whoever reads it, and what is no number as JavaScript and Python have it,
// which JSON has not.
func appendFloat(to []byte, value float32) []byte {
	switch wide := float64(value); {
	case math.IsNaN(wide):
		return append(to, "NaN"...)
	case math.IsInf(wide, 1):
		return append(to, "Infinity"...)
	case math.IsInf(wide, -1):
		return append(to, "-Infinity"...)
	}
	first := len(to)
	to = strconv.AppendFloat(to, float64(value), 'g', -1, 32)
	if !bytes.ContainsAny(to[first:], ".e") {
		to = append(to, ".0"...)
	}
	return to
}
