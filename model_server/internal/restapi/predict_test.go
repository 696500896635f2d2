package restapi

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"afo/model_server/internal/models"
)

const path = "/v1/models/ctr:predict"

func ask(t testing.TB, f *fake, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	New(f, Options{}).ServeHTTP(recorder, httptest.NewRequest(method, path, strings.NewReader(body)))
	return recorder
}

// errorOf is the sentence of an answer that is an error.
func errorOf(t testing.TB, answer *httptest.ResponseRecorder) string {
	t.Helper()
	var read struct{ Error string }
	decoder := json.NewDecoder(answer.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil || read.Error == "" {
		t.Fatalf("%d is not an error as JSON: %v", answer.Code, err)
	}
	return read.Error
}

func scores() []byte {
	return answered("scores", float32Type, []int64{2}, []byte{0, 0, 0x60, 0x40, 0, 0, 0x80, 0x3f})
}

var age = map[string]string{"age": "DT_INT64"}

func TestValuesBecomeTensorsOfTheSignature(t *testing.T) {
	features := map[string]string{"age": "DT_INT64", "name": "DT_STRING", "price": "DT_FLOAT"}
	for _, one := range []struct {
		inputs map[string]string
		body   string
		want   map[string]tensor
	}{
		{age, `{"instances": [1, -2, 9223372036854775807]}`,
			map[string]tensor{"age": {9, []int64{3}, []any{int64(1), int64(-2), int64(9223372036854775807)}, nil}}},
		{age, `{"instances": [9007199254740993, -9223372036854775808]}`,
			map[string]tensor{"age": {9, []int64{2}, []any{int64(9007199254740993), int64(-9223372036854775808)}, nil}}},
		{age, `{"instances": [[[1, 2]], [[3, 4]]]}`,
			map[string]tensor{"age": {9, []int64{2, 1, 2}, []any{int64(1), int64(2), int64(3), int64(4)}, nil}}},
		{age, `{"instances": [[], []]}`, map[string]tensor{"age": {9, []int64{2, 0}, nil, nil}}},
		{age, `{"instances": [{"age": 1}, {"age": 2}]}`, map[string]tensor{"age": {9, []int64{2}, []any{int64(1), int64(2)}, nil}}},
		{age, `{"inputs": 5}`, map[string]tensor{"age": {9, nil, []any{int64(5)}, nil}}},
		{age, `{"inputs": [5]}`, map[string]tensor{"age": {9, []int64{1}, []any{int64(5)}, nil}}},
		{age, `{"inputs": []}`, map[string]tensor{"age": {9, []int64{0}, nil, nil}}},
		{age, `{"inputs": {"age": [[5], [6]]}}`, map[string]tensor{"age": {9, []int64{2, 1}, []any{int64(5), int64(6)}, nil}}},
		{map[string]string{"x": "DT_INT32"}, `{"inputs": [-2147483648, 2147483647, -0]}`,
			map[string]tensor{"x": {3, []int64{3}, []any{int32(-2147483648), int32(2147483647), int32(0)}, nil}}},
		{map[string]string{"x": "DT_BOOL"}, `{"inputs": [true, false]}`, map[string]tensor{"x": {10, []int64{2}, []any{true, false}, nil}}},
		{map[string]string{"x": "DT_FLOAT"}, `{"inputs": [0.1, 1e3, -16777215, 3.4028235e38, 16777217.0]}`,
			map[string]tensor{"x": {1, []int64{5}, []any{float32(0.1), float32(1000), float32(-16777215), float32(3.4028235e38), float32(16777216)}, nil}}},
		{map[string]string{"x": "DT_STRING"}, `{"instances": ["é\u00e9\n", "", {"b64": "AP8="}, {"b64": "AP8"}, "\ud83d\ude00"]}`,
			map[string]tensor{"x": {7, []int64{5}, nil, []string{"éé\n", "", "\x00\xff", "\x00\xff", "😀"}}}},
		{map[string]string{"x": "DT_STRING"}, `{"inputs": {"b64": "YQ=="}}`, map[string]tensor{"x": {7, nil, nil, []string{"a"}}}},
		{features, `{"instances": [{"age": 1, "price": 2, "name": "a"}, {"name": {"b64": "Yg=="}, "age": 3, "price": 4.5}]}`,
			map[string]tensor{"age": {9, []int64{2}, []any{int64(1), int64(3)}, nil}, "price": {1, []int64{2}, []any{float32(2), float32(4.5)}, nil},
				"name": {7, []int64{2}, nil, []string{"a", "b"}}}},
		{features, `{"inputs": {"age": [1, 3], "price": [[2]], "name": "a"}, "signature_name": "serving_default"}`,
			map[string]tensor{"age": {9, []int64{2}, []any{int64(1), int64(3)}, nil}, "price": {1, []int64{1, 1}, []any{float32(2)}, nil},
				"name": {7, nil, nil, []string{"a"}}}},
	} {
		f := &fake{signatures: signed(one.inputs), response: scores()}
		answer := ask(t, f, http.MethodPost, path, one.body)
		if answer.Code != http.StatusOK {
			t.Errorf("%s: %d %s", one.body, answer.Code, answer.Body)
			continue
		}
		if read := decodeRequest(t, f.request); !reflect.DeepEqual(read.Inputs, one.want) {
			t.Errorf("%s: %+v, want %+v", one.body, read.Inputs, one.want)
		}
	}
}

func TestWhatIsWrongWithABodyIsSaidWithItsPlace(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	two := map[string]string{"age": "DT_INT64", "name": "DT_STRING"}
	for _, one := range []struct {
		inputs map[string]string
		body   string
		want   string
	}{
		{age, ``, "the body is not a JSON object"},
		{age, `[1]`, "the body is not a JSON object"},
		{age, `{}`, "the body has neither `instances` nor `inputs`"},
		{age, `{"instances": [1], "inputs": [1]}`, "the body has `instances` as well as `inputs`"},
		{age, `{"instances": [1]} x`, "the body is followed by something else, at byte 19"},
		{age, "{\"instances\": [1]}\x00", "the body is followed by something else"},
		{age, `{"instances": [1], "output_filter": []}`, "output_filter is not known"},
		{age, `{"instances": [1], "instances": [2]}`, "instances is there twice"},
		{age, `{"instances": [1], "signature_name": 3}`, "signature_name is not a string"},
		{age, `{"instances": [1], "signature_name": "other"}`, `the body wants the signature "other"; the model has serving_default`},
		{age, `{"instances": {"age": 1}}`, "instances is not a list"},
		{age, `{"instances": []}`, "instances is empty"},
		{age, `{"instances": [1, 2`, "instances[1] is no JSON: the body ends where `,` or `]` is expected"},
		{age, `{"instances": [1, 2.5]}`, `instances[1] is 2.5, where the input "age" wants a whole number`},
		{age, `{"instances": [{"age": 1}, {"age": 1e2}]}`, "instances[1].age is 1e2"},
		{age, `{"instances": [9223372036854775808]}`, "instances[0] is 9223372036854775808, which is beyond DT_INT64"},
		{age, `{"instances": [{"age": 1}, {"age": NaN}]}`, "instances[1].age is NaN, where the input \"age\" wants a whole number"},
		{age, `{"instances": [-Infinity]}`, "instances[0] is -Infinity, where the input \"age\" wants a whole number"},
		{age, `{"instances": [01]}`, "instances[0] is no JSON: byte 16 is '1', where `,` or `]` is expected"},
		{age, `{"instances": ["1"]}`, `instances[0] is a string, where the input "age" wants a whole number`},
		{age, `{"instances": [null]}`, "instances[0] is null"},
		{age, `{"instances": [nan]}`, "instances[0] is nan, which is not read; write NaN, Infinity or -Infinity"},
		{age, `{"instances": [1 NaN]}`, "instances[0] is no JSON: byte 17 is 'N'"},
		{age, `{"instances": [1], "signature_name": NaN}`, "signature_name is not a string"},
		{map[string]string{"x": "DT_FLOAT"}, `{"inputs": [1, null]}`, "inputs[1] is null, where the input \"x\" wants a number; write NaN for a missing number"},
		{map[string]string{"x": "DT_FLOAT"}, `{"inputs": [NaN1]}`, "inputs[0] is no JSON: byte 15 is '1'"},
		{map[string]string{"x": "DT_FLOAT"}, `{"inputs": ["NaN"]}`, "inputs[0] is a string"},
		{map[string]string{"x": "DT_BOOL"}, `{"inputs": [NaN]}`, "inputs[0] is NaN, where the input \"x\" wants true or false"},
		{map[string]string{"x": "DT_STRING"}, `{"inputs": [Infinity]}`, "inputs[0] is Infinity, where the input \"x\" wants a string"},
		{age, `{"instances": [true]}`, "instances[0] is true or false"},
		{age, `{"instances": [[1, 2], [3]]}`, "instances[1] is a list of 1, where the one before it is of 2"},
		{age, `{"instances": [[1], 2]}`, "instances[1] is a value, where the ones before it are lists"},
		{age, `{"instances": [1, [2]]}`, "instances[1] is a list, where the ones before it are values"},
		{age, `{"instances": [{"age": [1]}, {"age": [1, 2]}]}`, "instances[1].age is a list of 2"},
		{age, `{"inputs": {"age": [[[1], [2]], [[3], 4]]}}`, "inputs.age[1][1] is a value"},
		{age, `{"instances": [1, {"age": 2}]}`, "instances[1] is of another kind"},
		{age, `{"instances": [{"age": 2}, 1]}`, "instances[1] is of another kind"},
		{age, `{"instances": [{"age": 2, "age": 3}]}`, "instances[0].age is there twice"},
		{age, `{"inputs": {"age": 2, "age": 3}}`, "inputs.age is there twice"},
		{age, `{"inputs": {"age": 2, "a ge": 3}}`, `inputs["a ge"] is no input of the signature; its inputs are age`},
		{age, `{"instances": [{"age": {"b64": "AA=="}}]}`, "instances[0].age is an object"},
		{age, `{"instances": ` + deep + `}`, "is nested deeper than 32 levels"},
		{age, `{"inputs": ` + strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 40) + `}`, "is nested deeper than 32 levels"},
		{two, `{"instances": [1]}`, "instances[0] is one value, where the signature has the inputs age, name"},
		{two, `{"inputs": [1]}`, "inputs is one value, where the signature has the inputs age, name"},
		{two, `{"instances": [{"age": 1, "name": "a"}, {"age": 1}]}`, `instances[1] has no value for the input "name"`},
		{two, `{"inputs": {}}`, `inputs has no value for the input "age"`},
		{map[string]string{"x": "DT_INT32"}, `{"inputs": [2147483648]}`, "inputs[0] is 2147483648, which is beyond DT_INT32"},
		{map[string]string{"x": "DT_FLOAT"}, `{"inputs": [1e39]}`, "inputs[0] is 1e39, which is beyond DT_FLOAT"},
		{map[string]string{"x": "DT_FLOAT"}, `{"inputs": [16777216]}`, "inputs[0] is 16777216, a whole number beyond ±16777215"},
		{map[string]string{"x": "DT_BOOL"}, `{"inputs": [0]}`, "inputs[0] is a number, where the input \"x\" wants true or false"},
		{map[string]string{"x": "DT_STRING"}, `{"inputs": [3]}`, "inputs[0] is a number, where the input \"x\" wants a string"},
		{map[string]string{"x": "DT_STRING"}, `{"inputs": ["` + "\xff" + `"]}`, "inputs[0] is a string that is not UTF-8"},
		{map[string]string{"x": "DT_STRING"}, `{"inputs": ["\ud800"]}`, "inputs[0] is a string with a wrong escape"},
		{map[string]string{"x": "DT_STRING"}, `{"inputs": ["\u12+4"]}`, "inputs[0] is a string with a wrong escape"},
		{map[string]string{"x": "DT_STRING"}, "{\"inputs\": [\"a\nb\"]}", "inputs[0] is a string with an unescaped control character"},
		{map[string]string{"x": "DT_STRING"}, `{"inputs": [{"b64": "!"}]}`, "inputs[0].b64 is not base64"},
		{map[string]string{"x": "DT_STRING"}, `{"inputs": [{"b64": 3}]}`, "inputs[0] is an object; bytes are an object of one key"},
		{map[string]string{"x": "DT_DOUBLE"}, `{"inputs": [3]}`, `the body has no way to say the input "x", which is DT_DOUBLE`},
	} {
		f := &fake{signatures: signed(one.inputs), response: scores()}
		answer := ask(t, f, http.MethodPost, path, one.body)
		if said := errorOf(t, answer); answer.Code != http.StatusBadRequest || !strings.Contains(said, one.want) {
			t.Errorf("%.60s: %d %s, want %s", one.body, answer.Code, said, one.want)
		}
		if f.request != nil {
			t.Errorf("%.60s: the model was asked", one.body)
		}
	}
}

func TestAValueInThePlaceOfAListSaysHowToWriteIt(t *testing.T) {
	f := &fake{signatures: map[string]models.Signature{defaultSignature: {Inputs: map[string]models.TensorInfo{
		"city": {DType: "DT_STRING", Shape: []int64{-1, 1}}}}}, response: scores()}
	for body, want := range map[string]string{
		`{"instances": ["Ulm"]}`:                              "instances[0] is a value, where the input \"city\" has the shape [?, 1]: write it as a list, [\"Ulm\"]",
		`{"instances": [{"city": "Ulm"}]}`:                    "instances[0].city is a value",
		`{"inputs": {"city": ["Ulm", "a"]}}`:                  "inputs.city[0] is a value",
		`{"instances": ["` + strings.Repeat("x", 100) + `"]}`: "write it as a list, […]",
	} {
		answer := ask(t, f, http.MethodPost, path, body)
		if said := errorOf(t, answer); answer.Code != http.StatusBadRequest || !strings.Contains(said, want) {
			t.Errorf("%s: %d %s, want %s", body, answer.Code, said, want)
		}
	}
	// What else is wrong with a shape the model says.
	for _, body := range []string{`{"instances": [["Ulm"]]}`, `{"inputs": "Ulm"}`, `{"inputs": []}`, `{"inputs": [[["Ulm"]]]}`} {
		if answer := ask(t, f, http.MethodPost, path, body); answer.Code != http.StatusOK {
			t.Errorf("%s: %d %s", body, answer.Code, answer.Body)
		}
	}
}

func TestMissingNumbersAreReadForFloats(t *testing.T) {
	f := &fake{signatures: signed(map[string]string{"x": "DT_FLOAT", "name": "DT_STRING"}), response: scores()}
	answer := ask(t, f, http.MethodPost, path, `{"instances": [{"x": [NaN, -Infinity], "name": "NaN"}, {"x": [Infinity, 1], "name": "b"}]}`)
	if answer.Code != http.StatusOK {
		t.Fatal(answer.Code, answer.Body)
	}
	read := decodeRequest(t, f.request).Inputs
	values := read["x"].Values
	if wide := float64(values[0].(float32)); !math.IsNaN(wide) || values[1] != float32(math.Inf(-1)) || values[2] != float32(math.Inf(1)) ||
		values[3] != float32(1) || !reflect.DeepEqual(read["x"].Dims, []int64{2, 2}) || read["name"].Strings[0] != "NaN" {
		t.Errorf("%+v", read)
	}
}

func TestTheRequestNamesModelVersionAndSignature(t *testing.T) {
	f := &fake{signatures: signed(age), response: scores()}
	f.signatures["other"] = f.signatures[defaultSignature]
	ask(t, f, http.MethodPost, "/v1/models/a%2Fb%20c/versions/7:predict", `{"signature_name": "other", "instances": [1]}`)
	read := decodeRequest(t, f.request)
	if read.Model != "a/b c" || read.Version != 7 || read.Signature != "other" || f.spec.Name != "a/b c" || f.spec.Version != 7 {
		t.Errorf("%+v asked of %+v", read, f.spec)
	}
	ask(t, f, http.MethodPost, "/V1/models/ctr/labels/stable:Predict", `{"instances": [1]}`)
	read = decodeRequest(t, f.request)
	if read.Model != "ctr" || read.Version != 0 || read.Signature != "" || f.spec.Label != "stable" {
		t.Errorf("%+v asked of %+v", read, f.spec)
	}
}

func TestAnswersAreWrittenAsTensorFlowServingDoes(t *testing.T) {
	nan := []uint32{0x7fc00000, 0x7f800000, 0xff800000, 0x3dcccccd, 0x40600000, 0x3f800000, 0x80000000, 0x7f7fffff}
	ids := answered("ids", int64Type, []int64{2, 1}, numbers(t, []int64{9007199254740993, -1}))
	flags := answered("flags", boolType, []int64{2}, []byte{1, 0})
	for _, one := range []struct {
		response []byte
		rows     string
		columns  string
	}{
		{scores(), `{"predictions": [3.5, 1.0]}`, `{"outputs": [3.5, 1.0]}`},
		{append(append(scores(), ids...), flags...),
			`{"predictions": [{"flags": true, "ids": [9007199254740993], "scores": 3.5}, {"flags": false, "ids": [-1], "scores": 1.0}]}`,
			`{"outputs": {"flags": [true, false], "ids": [[9007199254740993], [-1]], "scores": [3.5, 1.0]}}`},
		{answered("x", int32Type, []int64{2, 2}, numbers(t, []int32{1, -2, 3, 4})), `{"predictions": [[1, -2], [3, 4]]}`, `{"outputs": [[1, -2], [3, 4]]}`},
		{answered("x", int32Type, []int64{2, 0}, nil), `{"predictions": [[], []]}`, `{"outputs": [[], []]}`},
		{answered("x", int32Type, []int64{0}, nil), `{"predictions": []}`, `{"outputs": []}`},
		{answered("x", float32Type, []int64{8}, numbers(t, nan)), `{"predictions": [NaN, Infinity, -Infinity, 0.1, 3.5, 1.0, -0.0, 3.4028235e+38]}`,
			`{"outputs": [NaN, Infinity, -Infinity, 0.1, 3.5, 1.0, -0.0, 3.4028235e+38]}`},
	} {
		f := &fake{signatures: signed(age), response: one.response}
		if got := ask(t, f, http.MethodPost, path, `{"instances": [1, 2]}`).Body.String(); got != one.rows+"\n" {
			t.Errorf("rows: %s, want %s", got, one.rows)
		}
		if got := ask(t, f, http.MethodPost, path, `{"inputs": [1, 2]}`).Body.String(); got != one.columns+"\n" {
			t.Errorf("columns: %s, want %s", got, one.columns)
		}
	}
}

func TestAScalarIsAnsweredInColumnsAlone(t *testing.T) {
	f := &fake{signatures: signed(age), response: answered("loss", float32Type, nil, numbers(t, float32(2)))}
	if got := ask(t, f, http.MethodPost, path, `{"inputs": [1]}`).Body.String(); got != "{\"outputs\": 2.0}\n" {
		t.Error(got)
	}
	answer := ask(t, f, http.MethodPost, path, `{"instances": [1]}`)
	if said := errorOf(t, answer); answer.Code != http.StatusBadRequest || !strings.Contains(said, "`inputs`") {
		t.Errorf("%d %s", answer.Code, said)
	}
}

func TestAnAnswerThatIsNotOneIsAnError(t *testing.T) {
	for name, response := range map[string][]byte{
		"nothing":          {},
		"not protobuf":     {0x0a, 0x05, 1},
		"too few bytes":    answered("x", float32Type, []int64{2}, []byte{0, 0, 0, 0}),
		"half a number":    answered("x", float32Type, []int64{1}, []byte{0, 0, 0, 0, 0}),
		"negative size":    answered("x", float32Type, []int64{-1}, nil),
		"sizes overflow":   answered("x", float32Type, []int64{1 << 32, 1 << 32}, nil),
		"strings":          answered("x", stringType, []int64{1}, nil),
		"no type":          answered("x", 0, []int64{1}, []byte{0}),
		"bytes for no row": answered("x", boolType, []int64{0}, []byte{0}),
	} {
		answer := ask(t, &fake{signatures: signed(age), response: response}, http.MethodPost, path, `{"inputs": [1]}`)
		if said := errorOf(t, answer); answer.Code != http.StatusInternalServerError || !strings.Contains(said, "the model's answer") {
			t.Errorf("%s: %d %s", name, answer.Code, said)
		}
	}
}
