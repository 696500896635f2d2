package restapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"unicode/utf8"

	"afo/model_server/internal/models"
)

// FuzzPredictBody compares what becomes of a body with what encoding/json reads in it.
func FuzzPredictBody(f *testing.F) {
	names := sortedKeys(dtypes)
	for kind, body := range []string{
		`{"instances": [true, false]}`,
		`{"inputs": [[0.1, -3e-4], [5, 1e38]]}`,
		`{"instances": [{"x": 1}, {"x": -2147483648}]}`,
		`{"signature_name": "serving_default", "instances": [[9223372036854775807, 0]]}`,
		`{"instances": ["é\ud83d\ude00\n", {"b64": "AP8="}]}`,
		`{"inputs": {"x": [[], []]}}`,
		`{"inputs": [NaN, -Infinity, Infinity]}`,
		`{"instances": [[1], [2, 3]], "instances": 1}`,
		`{"inputs": [[[[[[]]]]]]} x`,
	} {
		f.Add(uint8(kind), []byte(body))
	}
	f.Fuzz(func(t *testing.T, kind uint8, text []byte) {
		name := names[int(kind)%len(names)]
		signatures := signed(map[string]string{"x": name})
		request, row, err := built(text, signatures)
		if err != nil {
			var of *bodyError
			if errors.As(err, &of) && placeOf(text, of.at) == "" {
				t.Fatalf("no place of %v", err)
			}
			return
		}
		text = withoutSpecials(text)
		if !json.Valid(text) || !utf8.Valid(text) {
			t.Fatalf("%q is not JSON, and is read", text)
		}
		read := decodeRequest(t, request).Inputs["x"]
		values, dims := reference(t, text, row)
		if fmt.Sprint(read.Dims) != fmt.Sprint(dims) {
			t.Fatalf("%q has the shape %v, not %v", text, dims, read.Dims)
		}
		if name != "DT_STRING" && len(values) != len(read.Values) {
			t.Fatalf("%q has %d values, not %d", text, len(values), len(read.Values))
		}
		for i, value := range values {
			if !same(value, read, i) {
				t.Fatalf("%q has the value %v, not %+v", text, value, read)
			}
		}
	})
}

// built is the request that a body becomes.
func built(text []byte, signatures map[string]models.Signature) ([]byte, bool, error) {
	parsed, err := parseBody(text)
	if err != nil {
		return nil, false, err
	}
	signature, err := parsed.signatureOf(signatures)
	if err != nil {
		return nil, false, err
	}
	inputs, err := parsed.read(signature)
	if err != nil {
		return nil, false, err
	}
	return appendRequest(nil, models.Spec{Name: "ctr"}, parsed.signature, inputs), parsed.row, nil
}

// Numbers in the place of those that JSON does not have. No float is read from them otherwise: they are too large.
var standIns = map[string]string{"NaN": "9e999", "Infinity": "8e999", "-Infinity": "-8e999"}

// withoutSpecials puts a stand-in wherever one of them is no part of a string.
func withoutSpecials(text []byte) []byte {
	var to []byte
	for s := (scanner{text: text}); s.at < len(text); {
		start := s.at
		if s.here('"') {
			if _, err := s.str(); err != nil {
				return text
			}
			to = append(to, text[start:s.at]...)
			continue
		}
		if word, _ := s.special(); word != "" {
			to = append(to, " "+standIns[word]...)
			continue
		}
		if s.at = start; s.at < len(text) {
			to = append(to, text[s.at])
			s.at++
		}
	}
	return to
}

// reference reads the values of the input `x` and their shape with encoding/json.
func reference(t *testing.T, text []byte, row bool) (values []any, dims []int) {
	var body map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&body); err != nil {
		t.Fatal(err)
	}
	tree := body["inputs"]
	if row {
		tree = body["instances"]
		rows := slices.Clone(tree.([]any))
		for i, one := range rows {
			rows[i] = unnamed(one)
		}
		tree = rows
	} else {
		tree = unnamed(tree)
	}
	for level := tree; ; level = level.([]any)[0] {
		list, ok := level.([]any)
		if !ok {
			break
		}
		dims = append(dims, len(list))
		if len(list) == 0 {
			break
		}
	}
	return flat(nil, tree), dims
}

func unnamed(value any) any {
	if object, ok := value.(map[string]any); ok {
		if named, ok := object["x"]; ok {
			return named
		}
	}
	return value
}

func flat(to []any, of any) []any {
	list, ok := of.([]any)
	if !ok {
		return append(to, of)
	}
	for _, one := range list {
		to = flat(to, one)
	}
	return to
}

// same compares a value of JSON with the i-th of a tensor.
func same(value any, of tensor, i int) bool {
	switch value := value.(type) {
	case string:
		return of.Strings[i] == value
	case bool:
		return of.Values[i] == value
	case json.Number:
		if number, ok := of.Values[i].(float32); ok {
			var want float32
			for word, standIn := range standIns {
				if string(value) == standIn {
					return fmt.Sprint(number) == fmt.Sprint(float32(specials[word]))
				}
			}
			return json.Unmarshal([]byte(value), &want) == nil && number == want
		}
		whole, err := value.Int64()
		return err == nil && fmt.Sprint(of.Values[i]) == fmt.Sprint(whole)
	case map[string]any:
		var want struct{ B64 []byte }
		padded := value["b64"].(string)
		for len(padded)%4 != 0 {
			padded += "="
		}
		text, _ := json.Marshal(map[string]string{"b64": padded})
		// Line breaks in base64 are read by one of the two readers only where they are in groups of four.
		return json.Unmarshal(text, &want) != nil || of.Strings[i] == string(want.B64)
	}
	return false
}
