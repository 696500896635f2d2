package grpcapi

import (
	"context"
	"slices"

	"afo/model_server/internal/models"
	pb "afo/model_server/internal/tfserving"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// prediction is TensorFlow Serving's PredictionService.
type prediction struct {
	pb.UnimplementedPredictionServiceServer
	predictor models.Predictor
}

// predictionService is the generated description, but that Predict takes and gives bytes.
func predictionService() *grpc.ServiceDesc {
	described := pb.PredictionService_ServiceDesc
	described.Methods = slices.Clone(described.Methods)
	for i := range described.Methods {
		if described.Methods[i].MethodName == "Predict" {
			described.Methods[i].Handler = handlePredict
		}
	}
	return &described
}

func handlePredict(service any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	request := &rawRequest{}
	if err := decode(request); err != nil {
		return nil, err
	}
	defer request.buffer.Free()
	return service.(*prediction).predict(ctx, request.bytes())
}

func (p *prediction) predict(ctx context.Context, request []byte) (any, error) {
	entry := entryOf(ctx)
	spec, request, err := models.ReadRequest(request)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "the PredictRequest cannot be read: %v", err)
	}
	entry.Model = spec.Name
	response, version, err := p.predictor.Predict(ctx, spec, request)
	entry.Version = version
	if err != nil {
		return nil, err
	}
	return rawResponse{response, answeredBy(spec.Name, version)}, nil
}

const signatureDef = "signature_def"

// GetModelMetadata tells the signatures of a version.
func (p *prediction) GetModelMetadata(ctx context.Context, request *pb.GetModelMetadataRequest) (*pb.GetModelMetadataResponse, error) {
	spec, entry := specFrom(request.GetModelSpec()), entryOf(ctx)
	entry.Model = spec.Name
	if len(request.MetadataField) == 0 {
		return nil, status.Errorf(codes.InvalidArgument, "metadata_field is empty; allowed: %q", signatureDef)
	}
	for _, field := range request.MetadataField {
		if field != signatureDef {
			return nil, status.Errorf(codes.InvalidArgument, "metadata_field has %.80q; allowed: %q", field, signatureDef)
		}
	}
	signatures, version, err := p.predictor.Signatures(spec)
	if err != nil {
		return nil, err
	}
	entry.Version = version
	packed, err := anypb.New(signatureDefs(signatures))
	if err != nil {
		return nil, status.Errorf(codes.Internal, "the signatures cannot be written: %v", err)
	}
	return &pb.GetModelMetadataResponse{
		ModelSpec: &pb.ModelSpec{Name: spec.Name, VersionChoice: &pb.ModelSpec_Version{Version: wrapperspb.Int64(version)}},
		Metadata:  map[string]*anypb.Any{signatureDef: packed},
	}, nil
}

func specFrom(spec *pb.ModelSpec) models.Spec {
	return models.Spec{Name: spec.GetName(), Version: spec.GetVersion().GetValue(), Label: spec.GetVersionLabel()}
}

func signatureDefs(signatures map[string]models.Signature) *pb.SignatureDefMap {
	all := &pb.SignatureDefMap{SignatureDef: map[string]*pb.SignatureDef{}}
	for name, signature := range signatures {
		all.SignatureDef[name] = &pb.SignatureDef{
			Inputs: tensorInfos(signature.Inputs), Outputs: tensorInfos(signature.Outputs), MethodName: signature.MethodName,
		}
	}
	return all
}

func tensorInfos(tensors map[string]models.TensorInfo) map[string]*pb.TensorInfo {
	all := map[string]*pb.TensorInfo{}
	for name, tensor := range tensors {
		shape := &pb.TensorShapeProto{UnknownRank: tensor.Shape == nil}
		for _, size := range tensor.Shape {
			shape.Dim = append(shape.Dim, &pb.TensorShapeProto_Dim{Size: size})
		}
		// A type that has no number here is DT_INVALID.
		all[name] = &pb.TensorInfo{Name: name, Dtype: pb.DataType(pb.DataType_value[tensor.DType]), TensorShape: shape}
	}
	return all
}

const onlyPredict = "is not served: this server has Predict; send serialized tf.Example as its input `examples`"

func (p *prediction) Classify(context.Context, *pb.ClassificationRequest) (*pb.ClassificationResponse, error) {
	return nil, status.Error(codes.Unimplemented, "Classify "+onlyPredict)
}

func (p *prediction) Regress(context.Context, *pb.RegressionRequest) (*pb.RegressionResponse, error) {
	return nil, status.Error(codes.Unimplemented, "Regress "+onlyPredict)
}

func (p *prediction) MultiInference(context.Context, *pb.MultiInferenceRequest) (*pb.MultiInferenceResponse, error) {
	return nil, status.Error(codes.Unimplemented, "MultiInference "+onlyPredict)
}

// sessions is TensorFlow Serving's SessionService, of which nothing is served.
type sessions struct {
	pb.UnimplementedSessionServiceServer
}

func (sessions) SessionRun(context.Context, *pb.SessionRunRequest) (*pb.SessionRunResponse, error) {
	return nil, status.Error(codes.Unimplemented, "SessionRun is not served: it would run any part of a graph; this server has Predict")
}
