package restapi

import (
	"context"
	"encoding/binary"
	"math"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"afo/model_server/internal/models"
)

// fake keeps the request that it is asked with and gives a fixed answer.
type fake struct {
	signatures map[string]models.Signature
	response   []byte
	err        error
	wait       bool // until the context is done

	spec    models.Spec
	request []byte
}

func (f *fake) Predict(ctx context.Context, spec models.Spec, request []byte) ([]byte, int64, error) {
	f.spec, f.request = spec, request
	if f.wait {
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}
	return f.response, 7, f.err
}

func (f *fake) Signatures(spec models.Spec) (map[string]models.Signature, int64, error) {
	if spec.Name != "ctr" && spec.Name != "a/b c" {
		return nil, 0, status.Errorf(codes.NotFound, "no model %q; there is ctr", spec.Name)
	}
	if spec.Label != "" && spec.Label != "stable" {
		return nil, 0, status.Errorf(codes.NotFound, "no label %q; there is stable", spec.Label)
	}
	return f.signatures, 7, nil
}

func (f *fake) Status(name string, version int64) ([]models.VersionStatus, error) {
	if name != "ctr" {
		return nil, status.Errorf(codes.NotFound, "no model %q; there is ctr", name)
	}
	all := []models.VersionStatus{
		{Version: 7, State: models.StateAvailable},
		{Version: 6, State: models.StateEnd, Code: codes.ResourceExhausted, Message: "no memory"},
	}
	if version == 7 {
		all = all[:1]
	}
	return all, nil
}

func (f *fake) Names() []string { return []string{"ctr"} }
func (f *fake) Ready() bool     { return true }

// signed is a signature `serving_default` with the inputs by name.
func signed(inputs map[string]string) map[string]models.Signature {
	infos := map[string]models.TensorInfo{}
	for name, of := range inputs {
		infos[name] = models.TensorInfo{DType: of, Shape: []int64{-1}}
	}
	return map[string]models.Signature{defaultSignature: {MethodName: "tensorflow/serving/predict", Inputs: infos,
		Outputs: map[string]models.TensorInfo{"scores": {DType: "DT_FLOAT"}}}}
}

// tensor is an input as protobuf's own reader has it.
type tensor struct {
	Type    int64
	Dims    []int64
	Values  []any
	Strings []string
}

// messages describes the part of TensorFlow's messages that a request has, for a reader that is not the one under test.
var messages = func() protoreflect.MessageDescriptors {
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, repeated bool, of string) *descriptorpb.FieldDescriptorProto {
		one := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind,
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if repeated {
			one.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		if of != "" {
			one.TypeName = proto.String("." + of)
		}
		return one
	}
	message := func(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
	}
	const (
		text  = descriptorpb.FieldDescriptorProto_TYPE_STRING
		bytes = descriptorpb.FieldDescriptorProto_TYPE_BYTES
		whole = descriptorpb.FieldDescriptorProto_TYPE_INT64
		other = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("predict.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			message("PredictRequest", field("model_spec", 1, other, false, "ModelSpec"), field("inputs", 2, other, true, "Entry")),
			message("ModelSpec", field("name", 1, text, false, ""), field("version", 2, other, false, "Value"), field("signature_name", 3, text, false, "")),
			message("Value", field("value", 1, whole, false, "")),
			message("Entry", field("key", 1, text, false, ""), field("value", 2, other, false, "TensorProto")),
			message("TensorProto", field("dtype", 1, whole, false, ""), field("tensor_shape", 2, other, false, "Shape"),
				field("tensor_content", 4, bytes, false, ""), field("string_val", 8, bytes, true, "")),
			message("Shape", field("dim", 2, other, true, "Dim")),
			message("Dim", field("size", 1, whole, false, "")),
		},
	}, nil)
	if err != nil {
		panic(err)
	}
	return file.Messages()
}()

func get(of protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return of.Get(of.Descriptor().Fields().ByName(name))
}

// decodedRequest is a PredictRequest that a processor would get.
type decodedRequest struct {
	Model     string
	Version   int64
	Signature string
	Inputs    map[string]tensor
}

func decodeRequest(t testing.TB, request []byte) decodedRequest {
	t.Helper()
	message := dynamicpb.NewMessage(messages.ByName("PredictRequest"))
	if err := proto.Unmarshal(request, message); err != nil {
		t.Fatalf("the request is not protobuf: %v", err)
	}
	if len(message.GetUnknown()) > 0 {
		t.Fatalf("the request has other fields: %x", message.GetUnknown())
	}
	spec := get(message, "model_spec").Message()
	read := decodedRequest{
		Model:     get(spec, "name").String(),
		Version:   get(get(spec, "version").Message(), "value").Int(),
		Signature: get(spec, "signature_name").String(),
		Inputs:    map[string]tensor{},
	}
	inputs := get(message, "inputs").List()
	for i := range inputs.Len() {
		entry := inputs.Get(i).Message()
		name := get(entry, "key").String()
		if _, twice := read.Inputs[name]; twice {
			t.Fatalf("the request has the input %q twice", name)
		}
		read.Inputs[name] = decodeTensor(t, get(entry, "value").Message())
	}
	return read
}

func decodeTensor(t testing.TB, of protoreflect.Message) tensor {
	t.Helper()
	one := tensor{Type: get(of, "dtype").Int()}
	dims := get(get(of, "tensor_shape").Message(), "dim").List()
	count := int64(1)
	for i := range dims.Len() {
		size := get(dims.Get(i).Message(), "size").Int()
		one.Dims = append(one.Dims, size)
		count *= size
	}
	strings := get(of, "string_val").List()
	for i := range strings.Len() {
		one.Strings = append(one.Strings, string(strings.Get(i).Bytes()))
	}
	for content := get(of, "tensor_content").Bytes(); len(content) > 0; {
		switch one.Type {
		case 1:
			one.Values = append(one.Values, math.Float32frombits(binary.LittleEndian.Uint32(content)))
			content = content[4:]
		case 3:
			one.Values = append(one.Values, int32(binary.LittleEndian.Uint32(content)))
			content = content[4:]
		case 9:
			one.Values = append(one.Values, int64(binary.LittleEndian.Uint64(content)))
			content = content[8:]
		case 10:
			one.Values = append(one.Values, content[0] == 1)
			content = content[1:]
		default:
			t.Fatalf("a tensor of type %d has tensor_content", one.Type)
		}
	}
	if count != int64(len(one.Values)+len(one.Strings)) {
		t.Fatalf("a tensor of shape %v has %d values", one.Dims, len(one.Values)+len(one.Strings))
	}
	return one
}

// answered writes one output of a PredictResponse.
func answered(name string, of dtype, dims []int64, content []byte) []byte {
	var shape []byte
	for _, size := range dims {
		dim := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(size))
		shape = protowire.AppendBytes(protowire.AppendTag(shape, 2, protowire.BytesType), dim)
	}
	one := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(of))
	one = protowire.AppendBytes(protowire.AppendTag(one, 2, protowire.BytesType), shape)
	one = protowire.AppendBytes(protowire.AppendTag(one, 4, protowire.BytesType), content)
	entry := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte(name))
	entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType), one)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
}

// numbers are little-endian as tensor_content has them.
func numbers(t testing.TB, of any) []byte {
	t.Helper()
	content, err := binary.Append(nil, binary.LittleEndian, of)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
