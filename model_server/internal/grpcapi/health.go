package grpcapi

import (
	"context"
	"slices"
	"sync"

	"afo/model_server/internal/models"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Health answers grpc.health.v1: "" is whether the server is ready, a model's name whether it has a version. Unlike
// grpc's own, it ends the streams of those who watch when the server stops: each would hold up its graceful end.
type Health struct {
	healthpb.UnimplementedHealthServer

	mutex   sync.Mutex
	serving map[string]bool
	// changed is closed, and another one takes its place, when something has changed.
	changed chan struct{}
	// leaving: it is NOT_SERVING for good. stopped: nobody may watch it any more.
	leaving, stopped bool
}

// NewHealth says that nothing is served yet.
func NewHealth() *Health {
	return &Health{serving: map[string]bool{"": false}, changed: make(chan struct{})}
}

// Update is called after each change of what the predictor tells. One at a time, so that an older state never comes
// after a newer one.
func (h *Health) Update(predictor models.Predictor) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.leaving {
		return
	}
	for _, name := range predictor.Names() {
		h.serving[name] = available(predictor, name)
	}
	h.serving[""] = predictor.Ready()
	h.tell()
}

// Leave makes everything NOT_SERVING, for good.
func (h *Health) Leave() { h.end(false) }

// Stop does so too, and ends the streams of those who watch.
func (h *Health) Stop() { h.end(true) }

func (h *Health) end(stopped bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.leaving, h.stopped = true, h.stopped || stopped
	for name := range h.serving {
		h.serving[name] = false
	}
	h.tell()
}

func (h *Health) tell() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// of is the status of a service; whoever wants to know the next one waits for changed, unless all has ended.
func (h *Health) of(service string) (is healthpb.HealthCheckResponse_ServingStatus, changed <-chan struct{}, stopped bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	serving, known := h.serving[service]
	is = healthpb.HealthCheckResponse_NOT_SERVING
	if !known {
		is = healthpb.HealthCheckResponse_SERVICE_UNKNOWN
	} else if serving {
		is = healthpb.HealthCheckResponse_SERVING
	}
	return is, h.changed, h.stopped
}

// Check tells the status of a service.
func (h *Health) Check(_ context.Context, request *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	is, _, _ := h.of(request.GetService())
	if is == healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Errorf(codes.NotFound, "there is no model %.80q", request.GetService())
	}
	return &healthpb.HealthCheckResponse{Status: is}, nil
}

// Watch tells the status of a service, and each other one that it gets.
func (h *Health) Watch(request *healthpb.HealthCheckRequest, stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	if !arrived(stream.Context()) {
		return status.Error(codes.DeadlineExceeded, "the message of Watch came too late")
	}
	told := healthpb.HealthCheckResponse_UNKNOWN
	for {
		is, changed, stopped := h.of(request.GetService())
		if is != told {
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: is}); err != nil {
				return err
			}
			told = is
		}
		if stopped {
			return status.Error(codes.Unavailable, "the server is stopping")
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

func available(predictor models.Predictor, name string) bool {
	statuses, err := predictor.Status(name, 0)
	return err == nil && slices.ContainsFunc(statuses, func(each models.VersionStatus) bool {
		return each.State == models.StateAvailable
	})
}
