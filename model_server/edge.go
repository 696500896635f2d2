package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"

	"afo/model_server/internal/config"
	"afo/model_server/internal/grpcapi"
	"afo/model_server/internal/metrics"
	"afo/model_server/internal/models"

	"google.golang.org/grpc/credentials"
)

// access is who may ask, and what is taken down of it. Absent parts are nil.
type access struct {
	tls          *tls.Config
	credentials  credentials.TransportCredentials
	authenticate func(context.Context) (string, error)
	logGRPC      func(grpcapi.Entry)
}

// newAccess refuses what it would not keep to: a server that is thought to be protected must not start without.
func newAccess(settings *config.Config) (access, error) {
	if settings.TLS != nil || settings.TokensFile != "" || settings.AccessLog != "" {
		return access{}, errors.New("tls, tokens_file and access_log are not served by this build; remove them")
	}
	return access{}, nil
}

// newRESTHandler answers TensorFlow Serving's REST API, under /v1/.
func newRESTHandler(*config.Config, models.Predictor, *metrics.Metrics, access) http.Handler {
	return http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) {
		http.Error(to, `{"error": "the REST API is not served by this build; use gRPC"}`, http.StatusNotImplemented)
	})
}
