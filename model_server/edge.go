package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"strconv"

	"google.golang.org/grpc/credentials"

	edge "afo/model_server/internal/access"
	"afo/model_server/internal/config"
	"afo/model_server/internal/grpcapi"
	"afo/model_server/internal/metrics"
	"afo/model_server/internal/models"
	"afo/model_server/internal/restapi"
)

// access is who may ask, and what is taken down of it. Absent parts are nil.
type access struct {
	tls          *tls.Config
	credentials  credentials.TransportCredentials
	authenticate func(context.Context) (string, error)
	logGRPC      func(grpcapi.Entry)
	tokens       *edge.Tokens
	log          *edge.Log
}

// newAccess refuses what it would not keep to: a server that is thought to be protected must not start without.
func newAccess(log *slog.Logger, settings *config.Config) (access, error) {
	var made access
	var err error
	if files := settings.TLS; files != nil {
		if made.tls, err = edge.TLS(edge.TLSFiles{Certificate: files.Certificate, Key: files.Key, ClientCA: files.ClientCA}, log); err != nil {
			return access{}, err
		}
		made.credentials = credentials.NewTLS(made.tls)
	}
	if settings.TokensFile != "" {
		if made.tokens, err = edge.OpenTokens(settings.TokensFile, log); err != nil {
			return access{}, err
		}
		made.authenticate = made.tokens.Authenticate
	}
	if settings.AccessLog != "" {
		if made.log, err = edge.OpenLog(settings.AccessLog, log); err != nil {
			return access{}, err
		}
		made.logGRPC = func(e grpcapi.Entry) {
			made.log.Write(edge.Entry{Time: e.Began, API: "grpc", Method: e.Method, Model: e.Model, Version: e.Version, Code: e.Code.String(),
				Seconds: e.Took.Seconds(), RequestBytes: int64(e.RequestBytes), ResponseBytes: int64(e.ResponseBytes), Peer: e.Peer, Who: e.Who})
		}
	}
	return made, nil
}

// guarded is a handler as far as a request may ask it: newServer puts it around newHandler.
func (a access) guarded(next http.Handler) http.Handler { return a.log.HTTP(a.tokens.HTTP(next)) }

// newRESTHandler answers TensorFlow Serving's REST API, under /v1/.
func newRESTHandler(settings *config.Config, predictor models.Predictor, counted *metrics.Metrics, _ access) http.Handler {
	return restapi.New(predictor, restapi.Options{
		MaxBodyBytes: int64(settings.Limits.RequestBytes), Timeout: settings.Limits.Deadline(),
		Begin: func(ctx context.Context) func(restapi.Observation) {
			done := counted.Begin("rest")
			return func(o restapi.Observation) {
				done(metrics.Request{API: "rest", Method: o.Method, Code: strconv.Itoa(o.Status), Model: o.Model, Version: o.Version,
					Took: o.Elapsed, RequestBytes: o.RequestBytes, ResponseBytes: o.ResponseBytes})
				entry := edge.EntryOf(ctx)
				entry.Model, entry.Version = o.Model, o.Version
				if o.Method != "" {
					entry.Method = o.Method
				}
			}
		},
	})
}
