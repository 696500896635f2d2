package grpcapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"afo/model_server/internal/metrics"
	"afo/model_server/internal/models"
	pb "afo/model_server/internal/tfserving"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
)

// fake is one model, ctr, that answers with an output whose bytes are the request's.
type fake struct {
	mutex sync.Mutex
	ready bool
	left  time.Duration
}

func (f *fake) Predict(ctx context.Context, spec models.Spec, request []byte) ([]byte, int64, error) {
	if spec.Name == "panic" {
		panic("at the disco")
	}
	if spec.Name == "long" {
		return nil, 0, status.Error(codes.InvalidArgument, strings.Repeat("ü", 50_000))
	}
	if spec.Name != "ctr" {
		return nil, 0, status.Error(codes.NotFound, "there is no such model; models: ctr")
	}
	end, _ := ctx.Deadline()
	f.mutex.Lock()
	f.left = time.Until(end)
	f.mutex.Unlock()
	response := &pb.PredictResponse{Outputs: map[string]*pb.TensorProto{"echo": {TensorContent: request}}}
	out, err := proto.Marshal(response)
	return out, 3, err
}

func (f *fake) Signatures(spec models.Spec) (map[string]models.Signature, int64, error) {
	if spec.Label == "old" {
		return nil, 0, status.Error(codes.NotFound, "no label old")
	}
	return map[string]models.Signature{"serving_default": {
		MethodName: "tensorflow/serving/predict",
		Inputs:     map[string]models.TensorInfo{"examples": {DType: "DT_STRING", Shape: []int64{-1}}},
		Outputs:    map[string]models.TensorInfo{"p": {DType: "DT_FLOAT", Shape: nil}, "scalar": {DType: "DT_INT64", Shape: []int64{}}},
	}}, 3, nil
}

func (f *fake) Status(_ string, version int64) ([]models.VersionStatus, error) {
	if version == 9 {
		return nil, status.Error(codes.NotFound, "no version 9")
	}
	all := []models.VersionStatus{{Version: 4, State: models.StateEnd, Code: codes.Internal, Message: "broken"}}
	if f.Ready() {
		all = append(all, models.VersionStatus{Version: 3, State: models.StateAvailable})
	}
	return all, nil
}

func (f *fake) Names() []string { return []string{"ctr"} }

func (f *fake) Ready() bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.ready
}

// served is a server of a fake, a connection to it, and what it took down.
type served struct {
	fake    *fake
	health  *Health
	dial    func() (net.Conn, error)
	to      *grpc.ClientConn
	mutex   sync.Mutex
	entries []Entry
}

func newServed(t *testing.T, change ...func(*Options)) *served {
	t.Helper()
	s := &served{fake: &fake{ready: true}, health: NewHealth()}
	options := Options{
		Predictor: s.fake, Health: s.health, Metrics: metrics.New(s.fake.Names()), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		RequestBytes: 1 << 20, Deadline: time.Minute,
		LogAccess: func(entry Entry) {
			s.mutex.Lock()
			defer s.mutex.Unlock()
			s.entries = append(s.entries, entry)
		},
	}
	for _, each := range change {
		each(&options)
	}
	listener, server := bufconn.Listen(1<<20), NewServer(options)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	s.dial = listener.Dial
	dial := func(context.Context, string) (net.Conn, error) { return listener.Dial() }
	to, err := grpc.NewClient("passthrough:///x", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	s.to = to
	return s
}

// last is what was taken down last.
func (s *served) last() Entry {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.entries[len(s.entries)-1]
}

func fails(t *testing.T, err error, code codes.Code, says string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), says) {
		t.Errorf("%v; expected %v: %s", err, code, says)
	}
}

func TestARequestPassesThroughAsItsBytes(t *testing.T) {
	s := newServed(t)
	client := pb.NewPredictionServiceClient(s.to)
	for _, size := range []int{0, 100, 100_000} {
		for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
			request := asked(ofVersion(3))
			request.OutputFilter = []string{strings.Repeat("x", size)}
			response, err := client.Predict(context.Background(), request, options...)
			if err != nil {
				t.Fatal(err)
			}
			var echoed pb.PredictRequest
			if err := proto.Unmarshal(response.Outputs["echo"].TensorContent, &echoed); err != nil ||
				len(echoed.OutputFilter[0]) != size || echoed.ModelSpec.SignatureName != "predict" {
				t.Error(size, err)
			}
			if spec := response.ModelSpec; spec.Name != "ctr" || spec.GetVersion().GetValue() != 3 {
				t.Error(spec)
			}
			if last := s.last(); last.Model != "ctr" || last.Version != 3 || last.Code != codes.OK || last.Method != "Predict" ||
				last.RequestBytes < size || last.ResponseBytes < size {
				t.Errorf("%+v", last)
			}
		}
	}
}

func TestAModelIsAskedWithoutTheLabel(t *testing.T) {
	response, err := pb.NewPredictionServiceClient(newServed(t).to).Predict(context.Background(), asked(ofLabel("ctr", "stable")))
	if err != nil {
		t.Fatal(err)
	}
	var echoed pb.PredictRequest
	err = proto.Unmarshal(response.Outputs["echo"].TensorContent, &echoed)
	if spec := echoed.ModelSpec; err != nil || spec.VersionChoice != nil || spec.SignatureName != "predict" || len(echoed.Inputs) != 1 {
		t.Error(&echoed, err)
	}
}

func TestWhatIsWrongWithARequestIsAStatus(t *testing.T) {
	s := newServed(t)
	client := pb.NewPredictionServiceClient(s.to)
	_, err := client.Predict(context.Background(), asked(ofLabel("cvr", "x")))
	fails(t, err, codes.NotFound, "models: ctr")
	if last := s.last(); last.Model != "cvr" || last.Code != codes.NotFound || last.Message == "" {
		t.Errorf("%+v", last)
	}
	_, err = client.Predict(context.Background(), asked(&pb.ModelSpec{Name: "panic"}))
	fails(t, err, codes.Internal, "an error of the server")
	_, err = client.Predict(context.Background(), asked(&pb.ModelSpec{Name: "long"}))
	fails(t, err, codes.InvalidArgument, strings.Repeat("ü", mostMessageBytes/2)+" …")
	_, err = client.Predict(context.Background(), asked(&pb.ModelSpec{Name: "ctr", SignatureName: strings.Repeat("x", 1<<20)}))
	fails(t, err, codes.ResourceExhausted, "larger than max")
	err = s.to.Invoke(context.Background(), pb.PredictionService_Predict_FullMethodName, rawResponse{[]byte{0xff}}, &pb.PredictResponse{}, grpc.ForceCodecV2(newCodec()))
	fails(t, err, codes.InvalidArgument, "no protobuf message")
}

func TestTheServersDeadlineBoundsTheClients(t *testing.T) {
	s := newServed(t)
	client := pb.NewPredictionServiceClient(s.to)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for _, ctx := range []context.Context{context.Background(), ctx} {
		if _, err := client.Predict(ctx, asked(ofVersion(3))); err != nil || s.fake.left > time.Minute || s.fake.left <= 0 {
			t.Error(s.fake.left, err)
		}
	}
	ctx, cancel = context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := client.Predict(ctx, asked(ofVersion(3))); err != nil || s.fake.left > 30*time.Second {
		t.Error(s.fake.left, err)
	}
}

func TestMetadataIsTheSignatures(t *testing.T) {
	client := pb.NewPredictionServiceClient(newServed(t).to)
	ask := func(fields ...string) (*pb.GetModelMetadataResponse, error) {
		return client.GetModelMetadata(context.Background(), &pb.GetModelMetadataRequest{ModelSpec: &pb.ModelSpec{Name: "ctr"}, MetadataField: fields})
	}
	response, err := ask("signature_def")
	if err != nil {
		t.Fatal(err)
	}
	var all pb.SignatureDefMap
	if err := response.Metadata["signature_def"].UnmarshalTo(&all); err != nil {
		t.Fatal(err)
	}
	signature := all.SignatureDef["serving_default"]
	input, output, scalar := signature.Inputs["examples"], signature.Outputs["p"], signature.Outputs["scalar"]
	if input.Dtype != pb.DataType_DT_STRING || input.TensorShape.Dim[0].Size != -1 || !output.TensorShape.UnknownRank ||
		scalar.TensorShape.UnknownRank || response.ModelSpec.GetVersion().GetValue() != 3 {
		t.Error(response)
	}
	_, err = ask()
	fails(t, err, codes.InvalidArgument, "metadata_field is empty")
	_, err = ask("signature_def", "graph")
	fails(t, err, codes.InvalidArgument, `metadata_field has "graph"`)
}

func TestStatusIsThatOfTensorFlowServing(t *testing.T) {
	client := pb.NewModelServiceClient(newServed(t).to)
	ask := func(spec *pb.ModelSpec) (*pb.GetModelStatusResponse, error) {
		return client.GetModelStatus(context.Background(), &pb.GetModelStatusRequest{ModelSpec: spec})
	}
	response, err := ask(&pb.ModelSpec{Name: "ctr"})
	if err != nil || len(response.ModelVersionStatus) != 2 {
		t.Fatal(response, err)
	}
	if ended := response.ModelVersionStatus[0]; ended.State != pb.ModelVersionStatus_END || ended.Status.ErrorCode != 13 || ended.Status.ErrorMessage != "broken" {
		t.Error(ended)
	}
	if up := response.ModelVersionStatus[1]; up.Version != 3 || up.State != pb.ModelVersionStatus_AVAILABLE {
		t.Error(up)
	}
	_, err = ask(ofVersion(9))
	fails(t, err, codes.NotFound, "no version 9")
	_, err = ask(ofLabel("ctr", "old"))
	fails(t, err, codes.NotFound, "no label old")
}

func TestCallsThatAreNotServedSayWhatIs(t *testing.T) {
	s, ctx := newServed(t), context.Background()
	client := pb.NewPredictionServiceClient(s.to)
	_, err := client.Classify(ctx, &pb.ClassificationRequest{})
	fails(t, err, codes.Unimplemented, "Classify is not served")
	_, err = client.Regress(ctx, &pb.RegressionRequest{})
	fails(t, err, codes.Unimplemented, "Regress is not served")
	_, err = client.MultiInference(ctx, &pb.MultiInferenceRequest{})
	fails(t, err, codes.Unimplemented, "MultiInference is not served")
	_, err = pb.NewSessionServiceClient(s.to).SessionRun(ctx, &pb.SessionRunRequest{})
	fails(t, err, codes.Unimplemented, "SessionRun is not served")
	_, err = pb.NewModelServiceClient(s.to).HandleReloadConfigRequest(ctx, &pb.ReloadConfigRequest{})
	fails(t, err, codes.Unimplemented, "HandleReloadConfigRequest is not served")
}

func TestHealthFollowsThePredictor(t *testing.T) {
	s := newServed(t)
	client := healthpb.NewHealthClient(s.to)
	is := func(service string, expected healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		response, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil || response.Status != expected {
			t.Error(service, response, err)
		}
	}
	is("", healthpb.HealthCheckResponse_NOT_SERVING)
	s.health.Update(s.fake)
	is("", healthpb.HealthCheckResponse_SERVING)
	is("ctr", healthpb.HealthCheckResponse_SERVING)
	watch, err := client.Watch(context.Background(), &healthpb.HealthCheckRequest{Service: "ctr"})
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := client.Watch(context.Background(), &healthpb.HealthCheckRequest{Service: "cvr"})
	if err != nil {
		t.Fatal(err)
	}
	next := func(watch grpc.ServerStreamingClient[healthpb.HealthCheckResponse], expected healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if response, err := watch.Recv(); err != nil || response.Status != expected {
			t.Error(response, err)
		}
	}
	next(watch, healthpb.HealthCheckResponse_SERVING)
	next(unknown, healthpb.HealthCheckResponse_SERVICE_UNKNOWN)
	s.health.Leave()
	next(watch, healthpb.HealthCheckResponse_NOT_SERVING)
	s.health.Update(s.fake)
	is("ctr", healthpb.HealthCheckResponse_NOT_SERVING)
	s.health.Stop()
	for _, each := range []grpc.ServerStreamingClient[healthpb.HealthCheckResponse]{watch, unknown} {
		_, err := each.Recv()
		fails(t, err, codes.Unavailable, "the server is stopping")
	}
	s.health.Update(s.fake)
	is("", healthpb.HealthCheckResponse_NOT_SERVING)
	is("ctr", healthpb.HealthCheckResponse_NOT_SERVING)
	_, err = client.Check(context.Background(), &healthpb.HealthCheckRequest{Service: "cvr"})
	fails(t, err, codes.NotFound, `no model "cvr"`)
}

func TestWhoIsNotKnownIsRefusedButMayAskForHealth(t *testing.T) {
	s := newServed(t, func(options *Options) {
		options.Authenticate = func(ctx context.Context) (string, error) {
			if from, _ := metadata.FromIncomingContext(ctx); len(from["who"]) == 1 {
				return from["who"][0], nil
			}
			return "", errors.New("there is no token")
		}
	})
	client := pb.NewPredictionServiceClient(s.to)
	_, err := client.Predict(context.Background(), asked(ofVersion(3)))
	fails(t, err, codes.Unauthenticated, "there is no token")
	if _, err = client.Predict(metadata.AppendToOutgoingContext(context.Background(), "who", "ann"), asked(ofVersion(3))); err != nil {
		t.Error(err)
	}
	if last := s.last(); last.Who != "ann" || last.Peer == "" {
		t.Errorf("%+v", last)
	}
	if _, err := healthpb.NewHealthClient(s.to).Check(context.Background(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
}
