package models

import (
	"bytes"
	"strings"
	"testing"

	pb "afo/model_server/internal/tfserving"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func serialized(t testing.TB, message proto.Message) []byte {
	t.Helper()
	bytes, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func asked(spec *pb.ModelSpec) *pb.PredictRequest {
	return &pb.PredictRequest{ModelSpec: spec, Inputs: map[string]*pb.TensorProto{
		"examples": {Dtype: pb.DataType_DT_STRING, StringVal: [][]byte{[]byte("\x0a\x03ctr")}}}}
}

func ofVersion(number int64) *pb.ModelSpec {
	return &pb.ModelSpec{Name: "ctr", SignatureName: "predict", VersionChoice: &pb.ModelSpec_Version{Version: wrapperspb.Int64(number)}}
}

func ofLabel(label string) *pb.ModelSpec {
	return &pb.ModelSpec{Name: "cvr", VersionChoice: &pb.ModelSpec_VersionLabel{VersionLabel: label}}
}

// seeds are requests whose model_spec is there in every way that protobuf allows.
func seeds(t testing.TB) [][]byte {
	version, label := serialized(t, asked(ofVersion(3))), serialized(t, asked(ofLabel("stable")))
	unset := serialized(t, &pb.PredictRequest{ModelSpec: &pb.ModelSpec{VersionChoice: &pb.ModelSpec_Version{Version: &wrapperspb.Int64Value{}}}})
	return [][]byte{
		nil, version, label, unset,
		bytes.Join([][]byte{version, label}, nil), bytes.Join([][]byte{label, version}, nil),
		bytes.Join([][]byte{version, unset}, nil), bytes.Join([][]byte{label, unset}, nil),
		serialized(t, asked(ofVersion(-1))), serialized(t, asked(ofLabel(""))),
		{0x0a, 0x7f}, {0x08, 0x01}, {0xff}, {0x0b, 0x0c}, []byte("\x0a\x03\x0a\x01\xff"), []byte("\x0a\x02\x10\x05"),
	}
}

// sameAsProtobuf compares with protobuf's own reading. What that refuses may be read here: inputs are not looked at.
func sameAsProtobuf(t *testing.T, request []byte) {
	t.Helper()
	spec, taken, err := ReadRequest(request)
	var parsed, again pb.PredictRequest
	if proto.Unmarshal(request, &parsed) != nil {
		return
	}
	of := parsed.GetModelSpec()
	expected := Spec{Name: of.GetName(), Version: of.GetVersion().GetValue(), Label: of.GetVersionLabel()}
	if err != nil || spec != expected {
		t.Errorf("%x: %+v, %v; expected %+v", request, spec, err, expected)
	}
	// A model gets the same, but for a label.
	if expected.Label != "" {
		of.VersionChoice = nil
	}
	if err := proto.Unmarshal(taken, &again); err != nil || again.GetModelSpec().GetVersionLabel() != "" {
		t.Errorf("%x: %v of %v", request, err, &again)
	}
	if of.GetVersion() == nil && of != nil {
		// A version before the label that took its place: nobody reads it.
		of.VersionChoice, again.ModelSpec.VersionChoice = nil, nil
	}
	if !proto.Equal(&parsed, &again) {
		t.Errorf("%x: %v became %v", request, &parsed, &again)
	}
}

func TestAModelSpecIsReadAsProtobufDoes(t *testing.T) {
	for _, each := range seeds(t) {
		sameAsProtobuf(t, each)
	}
	if spec, _, err := ReadRequest(serialized(t, asked(ofVersion(3)))); err != nil || spec != (Spec{Name: "ctr", Version: 3}) {
		t.Error(spec, err)
	}
}

func TestAModelSpecThatIsWrongIsRefused(t *testing.T) {
	for says, request := range map[string][]byte{
		"no protobuf":    {0x0a, 0x7f},
		"no UTF-8":       []byte("\x0a\x03\x0a\x01\xff"),
		"more than 1638": serialized(t, asked(ofLabel(strings.Repeat("x", mostSpecBytes)))),
	} {
		if _, _, err := ReadRequest(request); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; expected: %s", err, says)
		}
	}
}

func FuzzModelSpec(f *testing.F) {
	for _, each := range seeds(f) {
		f.Add(each)
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		// Beyond these bounds the two differ knowingly.
		if len(request) > mostSpecBytes || !numbersAreSmall(request) {
			return
		}
		sameAsProtobuf(t, request)
	})
}

// numbersAreSmall tells requests apart whose field numbers protobuf itself refuses.
func numbersAreSmall(request []byte) bool {
	for len(request) > 0 {
		number, _, size := protowire.ConsumeField(request)
		if size < 0 {
			return true
		}
		if number > protowire.MaxValidNumber {
			return false
		}
		request = request[size:]
	}
	return true
}
