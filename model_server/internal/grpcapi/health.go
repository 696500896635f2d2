package grpcapi

import (
	"slices"
	"sync"

	"afo/model_server/internal/models"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// Health answers grpc.health.v1: "" is whether the server is ready, a model's name whether it has a version.
type Health struct {
	server *health.Server
	mutex  sync.Mutex
}

// NewHealth says that nothing is served yet.
func NewHealth() *Health {
	h := &Health{server: health.NewServer()}
	h.server.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	return h
}

// Update is called after each change of what the predictor tells. One at a time, so that an older state never comes
// after a newer one.
func (h *Health) Update(predictor models.Predictor) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, name := range predictor.Names() {
		h.set(name, available(predictor, name))
	}
	h.set("", predictor.Ready())
}

// Stop makes everything NOT_SERVING, for good.
func (h *Health) Stop() { h.server.Shutdown() }

func (h *Health) set(name string, serving bool) {
	to := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		to = healthpb.HealthCheckResponse_SERVING
	}
	h.server.SetServingStatus(name, to)
}

func available(predictor models.Predictor, name string) bool {
	statuses, err := predictor.Status(name, 0)
	return err == nil && slices.ContainsFunc(statuses, func(each models.VersionStatus) bool {
		return each.State == models.StateAvailable
	})
}
