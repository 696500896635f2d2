package restapi

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// dtype is TensorFlow's DataType, with its numbers.
type dtype int32

const (
	float32Type dtype = 1
	int32Type   dtype = 3
	stringType  dtype = 7
	int64Type   dtype = 9
	boolType    dtype = 10
)

// dtypes are those that a request can have; the processor takes no others.
var dtypes = map[string]dtype{
	"DT_FLOAT": float32Type, "DT_INT32": int32Type, "DT_STRING": stringType, "DT_INT64": int64Type, "DT_BOOL": boolType,
}

// mostWhole is the largest whole number up to which DT_FLOAT has all of them.
const mostWhole = 1<<24 - 1

// tensorReader makes a tensor of nested lists. The first value says how deep they are, and the first list of each level
// how long: another one that differs is an error.
type tensorReader struct {
	name string
	of   dtype
	// -1: a list that has not ended yet.
	dims []int64
	// The number of dimensions is known.
	ranked bool
	// Numbers as tensor_content has them; strings as the fields string_val.
	content []byte
	// Instances that had a value for this input.
	instances int
	// Where the first value is, and its text; "": there is none.
	first     int
	firstText string
}

// read reads one value within `depth` lists that were read already.
func (t *tensorReader) read(s *scanner, depth int) error {
	if s.peek() == '[' {
		return t.readList(s, depth)
	}
	if !t.ranked {
		t.ranked = true
	} else if depth != len(t.dims) {
		return wrong(s.at, "is a value, where the ones before it are lists: all have the same shape")
	}
	s.peek()
	start := s.at
	err := t.readValue(s)
	if t.firstText == "" && err == nil {
		t.first, t.firstText = start, string(s.text[start:min(s.at, start+mostQuoted)])
	}
	return err
}

// checkRank says how to write values that lack the innermost list of the input's shape; of other shapes the model says
// what is wrong.
func (t *tensorReader) checkRank(shape []int64) error {
	inner := len(shape) - 1
	if inner != len(t.dims) || inner < 1 || shape[inner] > 1 || t.firstText == "" {
		return nil
	}
	text := t.firstText
	if len(text) == mostQuoted {
		text = "…"
	}
	return wrong(t.first, "is a value, where the input %s has the shape %s: write it as a list, [%s]", quoted(t.name), shapeText(shape), text)
}

// shapeText has ? where any size will do.
func shapeText(shape []int64) string {
	return strings.ReplaceAll(strings.ReplaceAll(fmt.Sprint(shape), "-1", "?"), " ", ", ")
}

func (t *tensorReader) readList(s *scanner, depth int) error {
	start := s.at
	if depth == len(t.dims) {
		if t.ranked {
			return wrong(start, "is a list, where the ones before it are values: all have the same shape")
		}
		t.dims = append(t.dims, -1)
	}
	count := int64(0)
	err := s.list(func(int) error {
		count++
		return t.read(s, depth+1)
	})
	if err != nil {
		return err
	}
	if count == 0 && len(t.dims) == depth+1 {
		t.ranked = true
	}
	if t.dims[depth] == -1 {
		t.dims[depth] = count
	}
	if t.dims[depth] != count {
		return wrong(start, "is a list of %d, where the one before it is of %d: all have the same shape", count, t.dims[depth])
	}
	return nil
}

func (t *tensorReader) readValue(s *scanner) error {
	c, start := s.peek(), s.at
	if word, value := s.special(); word != "" {
		return t.addSpecial(start, word, value)
	}
	switch {
	case t.of == stringType:
		return t.readString(s)
	case t.of == boolType && (c == 't' || c == 'f'):
		word, err := s.word()
		if word == "true" {
			t.content = append(t.content, 1)
		} else {
			t.content = append(t.content, 0)
		}
		return err
	case t.of != boolType && (c == '-' || c >= '0' && c <= '9'):
		return t.readNumber(s)
	default:
		return t.wrongKind(s)
	}
}

// wrongKind is the error that a value is of another kind than the input.
func (t *tensorReader) wrongKind(s *scanner) error {
	kind := "a number"
	switch s.peek() {
	case '"':
		kind = "a string"
	case '{':
		kind = "an object"
	case '[':
		kind = "a list"
	case 't', 'f':
		kind = "true or false"
	case 'n':
		kind = "null"
	}
	advice := ""
	if kind == "null" && t.of == float32Type {
		advice = "; write NaN for a missing number"
	}
	return wrong(s.at, "is %s, where the input %s wants %s%s", kind, quoted(t.name), t.wanted(), advice)
}

func (t *tensorReader) wanted() string {
	switch t.of {
	case boolType:
		return "true or false"
	case stringType:
		return "a string or {\"b64\": \"…\"}"
	case int32Type, int64Type:
		return "a whole number"
	}
	return "a number"
}

// addSpecial takes what is no number where the input has such values.
func (t *tensorReader) addSpecial(start int, word string, value float64) error {
	if t.of != float32Type {
		return wrong(start, "is %s, where the input %s wants %s", word, quoted(t.name), t.wanted())
	}
	t.content = binary.LittleEndian.AppendUint32(t.content, math.Float32bits(float32(value)))
	return nil
}

func (t *tensorReader) readNumber(s *scanner) error {
	literal, whole, err := s.number()
	if err != nil {
		return err
	}
	start, text := s.at-len(literal), string(literal)
	shown := text
	if len(shown) > mostQuoted {
		shown = shown[:mostQuoted] + "…"
	}
	if t.of == float32Type {
		return t.addFloat(start, text, shown, whole)
	}
	bits, name := 64, "DT_INT64"
	if t.of == int32Type {
		bits, name = 32, "DT_INT32"
	}
	if !whole {
		return wrong(start, "is %s, where the input %s wants a whole number, without a fraction or an exponent", shown, quoted(t.name))
	}
	value, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return wrong(start, "is %s, which is beyond %s, the type of the input %s", shown, name, quoted(t.name))
	}
	if bits == 32 {
		t.content = binary.LittleEndian.AppendUint32(t.content, uint32(value))
	} else {
		t.content = binary.LittleEndian.AppendUint64(t.content, uint64(value))
	}
	return nil
}

// addFloat refuses whole numbers that DT_FLOAT might round, as TensorFlow Serving does: they are mostly ids.
func (t *tensorReader) addFloat(start int, text, shown string, whole bool) error {
	if whole {
		if value, err := strconv.ParseInt(text, 10, 64); err != nil || value > mostWhole || value < -mostWhole {
			return wrong(start, "is %s, a whole number beyond ±%d, which DT_FLOAT, the type of the input %s, may round; "+
				"with a fraction (`.0`) it becomes the nearest one", shown, mostWhole, quoted(t.name))
		}
	}
	value, err := strconv.ParseFloat(text, 32)
	if err != nil {
		return wrong(start, "is %s, which is beyond DT_FLOAT, the type of the input %s", shown, quoted(t.name))
	}
	t.content = binary.LittleEndian.AppendUint32(t.content, math.Float32bits(float32(value)))
	return nil
}

func (t *tensorReader) readString(s *scanner) error {
	var value []byte
	var err error
	switch s.peek() {
	case '"':
		value, err = s.str()
	case '{':
		value, err = readBase64(s)
	default:
		return t.wrongKind(s)
	}
	if err != nil {
		return err
	}
	t.content = protowire.AppendTag(t.content, stringValField, protowire.BytesType)
	t.content = protowire.AppendBytes(t.content, value)
	return nil
}

// isBase64 says whether the object at s is one that stands for bytes: its one key is `b64`.
func isBase64(s scanner) bool {
	keys := 0
	err := s.object(func(key []byte) error {
		keys++
		// The rest of an object of features is not read for this.
		if string(key) != "b64" || s.peek() != '"' {
			return wrong(s.at, "is not bytes")
		}
		return s.skip(0)
	})
	return err == nil && keys == 1
}

func readBase64(s *scanner) ([]byte, error) {
	start := s.at
	if !isBase64(*s) {
		return nil, wrong(start, "is an object; bytes are an object of one key, {\"b64\": \"…\"}")
	}
	var decoded []byte
	err := s.object(func([]byte) error {
		at := s.at
		text, err := s.str()
		if err != nil {
			return err
		}
		encoding := base64.RawStdEncoding
		if strings.HasSuffix(string(text), "=") {
			encoding = base64.StdEncoding
		}
		if decoded, err = encoding.AppendDecode(nil, text); err != nil {
			return wrong(at, "is not base64: %v", err)
		}
		return nil
	})
	return decoded, err
}
