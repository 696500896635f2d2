// Package grpcapi speaks TensorFlow Serving's gRPC services. A PredictRequest passes through as the bytes that it is:
// of it only the model_spec is read here.
package grpcapi

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"afo/model_server/internal/metrics"
	"afo/model_server/internal/models"
	pb "afo/model_server/internal/tfserving"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

// Options are what a server is made of.
type Options struct {
	Predictor models.Predictor
	Health    *Health
	Metrics   *metrics.Metrics
	Log       *slog.Logger
	// RequestBytes is the largest message that is taken, unpacked.
	RequestBytes int
	// Deadline is the most that a request may take, whatever its client allows.
	Deadline time.Duration
	// Credentials are of TLS; nil: none.
	Credentials credentials.TransportCredentials
	// Authenticate says who asks, from a request's metadata; an error refuses the request. nil: anybody may ask, and who
	// it is says a client's certificate. Health is told to everybody: what asks for it, such as a load balancer, has no token.
	Authenticate func(ctx context.Context) (who string, err error)
	// LogAccess takes down a request that was answered; nil: nobody does. Any number of goroutines call it at once.
	LogAccess func(Entry)
	// MostAge is how long a connection takes new requests; 0: the default.
	MostAge time.Duration
}

const (
	// mostStreams is how many requests of one connection are read, or have an answer that is not read yet, at once.
	mostStreams = 128
	// leastPing is how often a client may ask whether the connection is alive.
	leastPing = 10 * time.Second
	// handshakeTime is for a new connection to speak TLS and HTTP/2.
	handshakeTime = 20 * time.Second
	// pingAfter a silence the client is asked whether it is alive, and has pingTime to answer.
	pingAfter = time.Minute
	pingTime  = 20 * time.Second
	// idleTime is how long a connection without requests stays.
	idleTime = 5 * time.Minute
	// mostAge is how long a connection takes new requests: its client opens another one. An answer that a client does not
	// read, as its window is 0, is given up only with its connection, some time after that.
	mostAge = 15 * time.Minute
)

// NewServer makes a server that Serve starts.
func NewServer(options Options) *grpc.Server {
	around := &calls{options}
	to := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(options.RequestBytes),
		grpc.MaxConcurrentStreams(mostStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idleTime, MaxConnectionAge: cmp.Or(options.MostAge, mostAge), MaxConnectionAgeGrace: 2 * options.Deadline,
			Time: pingAfter, Timeout: pingTime,
		}),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.InTapHandle(around.deadline),
	}
	if options.Credentials != nil {
		to = append(to, grpc.Creds(options.Credentials))
	}
	server := grpc.NewServer(to...)
	around.register(server, predictionService(), &prediction{predictor: options.Predictor})
	around.register(server, &pb.SessionService_ServiceDesc, sessions{})
	around.register(server, &pb.ModelService_ServiceDesc, &modelService{predictor: options.Predictor})
	healthpb.RegisterHealthServer(server, options.Health)
	return server
}
