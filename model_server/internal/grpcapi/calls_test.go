package grpcapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"afo/model_server/internal/metrics"
	pb "afo/model_server/internal/tfserving"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
)

func TestTheAccessLogHasTheNameOfATokenOrOfACertificate(t *testing.T) {
	of := &x509.Certificate{Subject: pkix.Name{CommonName: "ann"}}
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{of}, VerifiedChains: [][]*x509.Certificate{{of}}}
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{}, AuthInfo: credentials.TLSInfo{State: state}})
	for _, each := range []struct {
		authenticate func(context.Context) (string, error)
		who          string
		code         codes.Code
	}{
		{nil, "ann", codes.OK},
		{func(context.Context) (string, error) { return "ranking", nil }, "ranking", codes.OK},
		{func(context.Context) (string, error) { return "", errors.New("no token") }, "ann", codes.Unauthenticated},
	} {
		var seen Entry
		c := &calls{Options{Metrics: metrics.New(nil), Authenticate: each.authenticate, LogAccess: func(e Entry) { seen = e }}}
		_, _ = c.answer(ctx, "/s/Predict", func(context.Context) (any, error) { return nil, nil })
		if seen.Who != each.who || seen.Code != each.code {
			t.Errorf("%+v; expected: %s %s", seen, each.who, each.code)
		}
	}
}

// rawClient speaks HTTP/2 as no client of gRPC does.
type rawClient struct {
	t      *testing.T
	to     net.Conn
	framer *http2.Framer
	stream uint32
}

// raw opens a connection, whose streams the server may answer with so many bytes.
func (s *served) raw(t *testing.T, window uint32) *rawClient {
	t.Helper()
	to, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	_ = to.SetDeadline(time.Now().Add(20 * time.Second))
	r := &rawClient{t: t, to: to, framer: http2.NewFramer(to, to), stream: 1}
	r.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err = io.WriteString(to, http2.ClientPreface)
	r.must(err)
	r.must(r.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	return r
}

func (r *rawClient) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// begin sends the header of a call.
func (r *rawClient) begin(method string) uint32 {
	r.t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		r.must(encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	stream := r.stream
	r.stream += 2
	r.must(r.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}))
	return stream
}

// message sends the start of a message that is said to have so many bytes.
func (r *rawClient) message(stream uint32, size int, start []byte, ends bool) {
	r.t.Helper()
	r.must(r.framer.WriteData(stream, ends, append([]byte{0, 0, 0, byte(size >> 8), byte(size)}, start...)))
}

// status is what a stream ends with.
func (r *rawClient) status(stream uint32) (code, message string) {
	r.t.Helper()
	for {
		frame, err := r.framer.ReadFrame()
		r.must(err)
		if headers, ok := frame.(*http2.MetaHeadersFrame); ok && headers.StreamID == stream && headers.StreamEnded() {
			for _, field := range headers.Fields {
				switch field.Name {
				case "grpc-status":
					code = field.Value
				case "grpc-message":
					message = field.Value
				}
			}
			return code, message
		}
	}
}

func TestAStrangerIsRefusedBeforeHisMessageCame(t *testing.T) {
	s := newServed(t, func(options *Options) {
		options.Authenticate = func(context.Context) (string, error) { return "", errors.New("there is no token") }
	})
	client := s.raw(t, 1<<16)
	stream := client.begin(pb.PredictionService_Predict_FullMethodName)
	if code, message := client.status(stream); code != "16" || message != "there is no token" {
		t.Errorf("%s %q", code, message)
	}
	if last := s.last(); last.Code != codes.Unauthenticated || last.Method != "Predict" || last.Peer == "" || last.RequestBytes != 0 {
		t.Errorf("%+v", last)
	}
}

func TestAMessageThatDoesNotComeWholeEndsInTime(t *testing.T) {
	s := newServed(t, func(options *Options) { options.Deadline = 10 * time.Millisecond })
	for _, method := range []string{pb.PredictionService_Predict_FullMethodName, pb.ModelService_GetModelStatus_FullMethodName,
		healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName} {
		for _, half := range []bool{false, true} {
			client := s.raw(t, 1<<16)
			stream := client.begin(method)
			if half {
				client.message(stream, 1000, make([]byte, 500), false)
			}
			want := "4"
			if method == healthpb.Health_Watch_FullMethodName {
				want = "1"
			}
			if code, message := client.status(stream); code != want {
				t.Errorf("%s: %s %q, want %s", method, code, message, want)
			}
		}
	}
	if last := s.last(); last.Code != codes.DeadlineExceeded || last.Method != "GetModelStatus" {
		t.Errorf("%+v", last)
	}
}

func TestHealthIsWatchedBeyondTheTimeOfARequest(t *testing.T) {
	s := newServed(t, func(options *Options) { options.Deadline = 100 * time.Millisecond })
	watch, err := healthpb.NewHealthClient(s.to).Watch(context.Background(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_NOT_SERVING, healthpb.HealthCheckResponse_SERVING} {
		if response, err := watch.Recv(); err != nil || response.Status != want {
			t.Fatal(response, err)
		}
		// A request of as much time has come to its end by then.
		client := s.raw(t, 1<<16)
		client.status(client.begin(pb.PredictionService_Predict_FullMethodName))
		s.health.Update(s.fake)
	}
}

func TestAnAnswerThatIsNotReadIsGivenUp(t *testing.T) {
	s := newServed(t, func(options *Options) { options.Deadline, options.MostAge = 10*time.Millisecond, 10*time.Millisecond })
	client := s.raw(t, 0)
	stream := client.begin(pb.ModelService_GetModelStatus_FullMethodName)
	request := "\x0a\x05\x0a\x03ctr"
	client.message(stream, len(request), []byte(request), true)
	for {
		frame, err := client.framer.ReadFrame()
		if err != nil {
			if !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "closed") {
				t.Error(err)
			}
			break
		}
		if headers, ok := frame.(*http2.MetaHeadersFrame); ok && headers.StreamEnded() {
			t.Fatal("the answer was not held up")
		}
	}
}
