package restapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"afo/model_server/internal/models"
)

func TestCodesAreThoseOfTensorFlowServing(t *testing.T) {
	for err, want := range map[error]int{
		status.Error(codes.InvalidArgument, "a"):   400,
		status.Error(codes.Unauthenticated, "a"):   401,
		status.Error(codes.NotFound, "a"):          404,
		status.Error(codes.ResourceExhausted, "a"): 429,
		status.Error(codes.Canceled, "a"):          499,
		status.Error(codes.Internal, "a"):          500,
		status.Error(codes.Unimplemented, "a"):     501,
		status.Error(codes.Unavailable, "a"):       503,
		status.Error(codes.DeadlineExceeded, "a"):  504,
		status.Error(codes.Code(99), "a"):          500,
		errors.New("a"):                            500,
	} {
		answer := ask(t, &fake{signatures: signed(age), err: err}, http.MethodPost, path, `{"instances": [1]}`)
		if answer.Code != want || answer.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%v: %d, want %d", err, answer.Code, want)
		}
		if later := answer.Header().Get("Retry-After") != ""; later != (want == 429 || want == 503) {
			t.Errorf("%v: Retry-After is %v", err, later)
		}
		errorOf(t, answer)
	}
}

func TestPathsAndMethods(t *testing.T) {
	for _, one := range []struct {
		method, path string
		code         int
		allow        string
	}{
		{"GET", "/v1/models/ctr", 200, ""},
		{"HEAD", "/v1/models/ctr", 200, ""},
		{"GET", "/v1/models/ctr/metadata", 200, ""},
		{"GET", "/v1/models/ctr/versions/7/metadata", 200, ""},
		{"GET", "/v1/models/other", 404, ""},
		{"GET", "/v1/models/ctr/labels/canary", 404, ""},
		{"POST", "/v1/models/other:predict", 404, ""},
		{"POST", "/v1/models/ctr/versions/0:predict", 404, ""},
		{"POST", "/v1/models/ctr/versions/99999999999999999999:predict", 400, ""},
		{"POST", "/v1/models/%zz:predict", 400, ""},
		{"GET", "/v1/models", 400, ""},
		{"GET", "/v1/models/ctr/versions/a", 404, ""},
		{"GET", "/v1/other", 404, ""},
		{"GET", "/v1/models/ctr:predict", 405, "POST"},
		{"PUT", "/v1/models/ctr", 405, "GET"},
		{"POST", "/v1/models/ctr/metadata", 405, "GET"},
		{"POST", "/v1/models/ctr:classify", 501, ""},
		{"POST", "/v1/models/ctr:regress", 501, ""},
	} {
		f := &fake{signatures: signed(age), response: scores()}
		recorder := httptest.NewRecorder()
		request := httptest.NewRequest(one.method, "/", strings.NewReader(`{"instances": [1]}`))
		// As a server has it, where a path that cannot be decoded does not arrive.
		request.URL.Path, request.URL.RawPath = one.path, ""
		if one.path == "/v1/models/%zz:predict" {
			if _, err := parsePath(one.path, f.Names); codeOf(status.Code(err)).http != one.code {
				t.Errorf("%s: %v", one.path, err)
			}
			continue
		}
		New(f, Options{}).ServeHTTP(recorder, request)
		if recorder.Code != one.code || recorder.Header().Get("Allow") != one.allow {
			t.Errorf("%s %s: %d %q, want %d %q", one.method, one.path, recorder.Code, recorder.Header().Get("Allow"), one.code, one.allow)
		}
	}
}

func TestStatusIsThatOfTensorFlowServing(t *testing.T) {
	const seven = `{"version": "7", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}`
	const six = `{"version": "6", "state": "END", "status": {"error_code": "RESOURCE_EXHAUSTED", "error_message": "no memory"}}`
	for path, want := range map[string]string{
		"/v1/models/ctr":               seven + ", " + six,
		"/v1/models/ctr/versions/7":    seven,
		"/v1/models/ctr/labels/stable": seven,
	} {
		sameJSON(t, ask(t, &fake{}, http.MethodGet, path, "").Body.String(), `{"model_version_status": [`+want+`]}`)
	}
}

func TestMetadataIsThatOfTensorFlowServing(t *testing.T) {
	f := &fake{signatures: map[string]models.Signature{"predict": {MethodName: "tensorflow/serving/predict",
		Inputs:  map[string]models.TensorInfo{"age": {DType: "DT_INT64", Shape: []int64{-1, 2}}},
		Outputs: map[string]models.TensorInfo{"scores": {DType: "DT_FLOAT"}, "loss": {DType: "DT_FLOAT", Shape: []int64{}}}}}}
	sameJSON(t, ask(t, f, http.MethodGet, "/v1/models/ctr/metadata", "").Body.String(), `{
		"model_spec": {"name": "ctr", "signature_name": "", "version": "7"},
		"metadata": {"signature_def": {"signature_def": {"predict": {
			"inputs": {"age": {"dtype": "DT_INT64", "name": "", "tensor_shape":
				{"dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}], "unknown_rank": false}}},
			"outputs": {
				"scores": {"dtype": "DT_FLOAT", "name": "", "tensor_shape": {"dim": [], "unknown_rank": true}},
				"loss": {"dtype": "DT_FLOAT", "name": "", "tensor_shape": {"dim": [], "unknown_rank": false}}},
			"method_name": "tensorflow/serving/predict"}}}}}`)
}

func sameJSON(t *testing.T, got, want string) {
	t.Helper()
	var first, second any
	if err := errors.Join(json.Unmarshal([]byte(got), &first), json.Unmarshal([]byte(want), &second)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first, second) {
		t.Errorf("%s, want %s", got, want)
	}
}

func packed(text string) string {
	var to bytes.Buffer
	writer := gzip.NewWriter(&to)
	io.WriteString(writer, text) //nolint:errcheck // in memory
	writer.Close()               //nolint:errcheck // in memory
	return to.String()
}

func TestBodiesAreBounded(t *testing.T) {
	const good = `{"instances": [1]}`
	long := `{"instances": [1` + strings.Repeat(" ", 1000) + `]}`
	for _, one := range []struct {
		body, encoding string
		unknown        bool // the length is not said
		code           int
	}{
		{good, "", false, 200},
		{good, "identity", false, 200},
		{long, "", false, 413},
		{long, "", true, 413},
		{packed(good), "gzip", false, 200},
		{packed(good), "GZIP", true, 200},
		{packed(long), "gzip", false, 413},
		{packed(good)[:20], "gzip", false, 400},
		{good, "gzip", false, 400},
		{good, "br", false, 415},
		{good, "gzip, gzip", false, 415},
	} {
		f := &fake{signatures: signed(age), response: scores()}
		request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(one.body))
		if one.unknown {
			request.ContentLength = -1
		}
		if one.encoding != "" {
			request.Header.Set("Content-Encoding", one.encoding)
		}
		recorder := httptest.NewRecorder()
		New(f, Options{MaxBodyBytes: 100}).ServeHTTP(recorder, request)
		if recorder.Code != one.code {
			t.Errorf("%d bytes of %q: %d %s, want %d", len(one.body), one.encoding, recorder.Code, recorder.Body, one.code)
		}
	}
}

func TestASmallBodyDoesNotBecomeALargeOne(t *testing.T) {
	bomb := packed(strings.Repeat(" ", 4<<20))
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(bomb))
	request.Header.Set("Content-Encoding", "gzip")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	recorder := httptest.NewRecorder()
	New(&fake{}, Options{MaxBodyBytes: int64(len(bomb))}).ServeHTTP(recorder, request)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; recorder.Code != http.StatusRequestEntityTooLarge || took > 1<<20 {
		t.Errorf("%d, with %d bytes", recorder.Code, took)
	}
}

func TestABodyThatSaysItIsTooLargeIsNotRead(t *testing.T) {
	request := httptest.NewRequest(http.MethodPost, path, io.MultiReader())
	request.ContentLength = 101
	recorder := httptest.NewRecorder()
	New(&fake{}, Options{MaxBodyBytes: 100}).ServeHTTP(recorder, request)
	if recorder.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", recorder.Code, recorder.Body)
	}
}

func TestARequestEndsInTime(t *testing.T) {
	var seen Observation
	handler := New(&fake{signatures: signed(age), wait: true}, Options{Timeout: time.Millisecond,
		Begin: func(context.Context) func(Observation) { return func(o Observation) { seen = o } }})
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"instances": [1]}`)))
	if recorder.Code != http.StatusGatewayTimeout || seen.Status != recorder.Code || seen.Model != "ctr" || seen.Method != "predict" ||
		seen.RequestBytes != 18 || seen.ResponseBytes != recorder.Body.Len() {
		t.Errorf("%d %+v", recorder.Code, seen)
	}
}

func TestAnErrorIsObservedWithTheVersionThatGaveIt(t *testing.T) {
	var seen Observation
	handler := New(&fake{signatures: signed(age), err: status.Error(codes.InvalidArgument, "bad")},
		Options{Begin: func(context.Context) func(Observation) { return func(o Observation) { seen = o } }})
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"instances": [1]}`)))
	if seen.Status != http.StatusBadRequest || seen.Version != 7 {
		t.Errorf("%+v", seen)
	}
}

func TestAHandlerThatPanicsIsObserved(t *testing.T) {
	var seen Observation
	handler := New(nil, Options{Begin: func(context.Context) func(Observation) { return func(o Observation) { seen = o } }})
	defer func() {
		if recover() == nil || seen.Status != http.StatusInternalServerError {
			t.Errorf("%+v", seen)
		}
	}()
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/models/ctr", nil))
}

func TestABodyThatDoesNotComeEndsTheRequest(t *testing.T) {
	server := httptest.NewServer(New(&fake{signatures: signed(age)}, Options{Timeout: 20 * time.Millisecond}))
	defer server.Close()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(connection)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("%s %v", answer, err)
	}
}

func TestAConnectionIsUsedAgainAfterTheTimeOfTheFirstBody(t *testing.T) {
	f := &fake{signatures: signed(age), response: scores()}
	server := httptest.NewServer(New(f, Options{Timeout: time.Second}))
	defer server.Close()
	for range 3 {
		answer, err := server.Client().Post(server.URL+path, "application/json", strings.NewReader(`{"instances": [1, 2]}`))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, answer.Body) //nolint:errcheck // short
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Status)
		}
	}
}
