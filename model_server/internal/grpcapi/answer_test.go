package grpcapi

import (
	"testing"

	pb "afo/model_server/internal/tfserving"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func asked(spec *pb.ModelSpec) *pb.PredictRequest {
	return &pb.PredictRequest{ModelSpec: spec, Inputs: map[string]*pb.TensorProto{
		"examples": {Dtype: pb.DataType_DT_STRING, StringVal: [][]byte{[]byte("\x0a\x03ctr")}}}}
}

func ofVersion(number int64) *pb.ModelSpec {
	return &pb.ModelSpec{Name: "ctr", SignatureName: "predict", VersionChoice: &pb.ModelSpec_Version{Version: wrapperspb.Int64(number)}}
}

func ofLabel(name, label string) *pb.ModelSpec {
	return &pb.ModelSpec{Name: name, SignatureName: "predict", VersionChoice: &pb.ModelSpec_VersionLabel{VersionLabel: label}}
}

func TestAnAnswerSaysWhichVersionItIsOf(t *testing.T) {
	before, err := proto.Marshal(&pb.PredictResponse{ModelSpec: ofLabel("cvr", "stable"), Outputs: map[string]*pb.TensorProto{"p": {}}})
	if err != nil {
		t.Fatal(err)
	}
	var response pb.PredictResponse
	if err := proto.Unmarshal(append(before, answeredBy("ctr", 12)...), &response); err != nil {
		t.Fatal(err)
	}
	if spec := response.ModelSpec; spec.Name != "ctr" || spec.GetVersion().GetValue() != 12 || len(response.Outputs) != 1 {
		t.Error(&response)
	}
}
