package models

import (
	"context"
	"net/http"

	"google.golang.org/grpc/metadata"
)

type headersKey struct{}

// WithHeaders is a context of a request that came by HTTP. One of gRPC has its metadata with it.
func WithHeaders(ctx context.Context, headers http.Header) context.Context {
	return context.WithValue(ctx, headersKey{}, headers)
}

// headerOf is the first value of a header or of a key of metadata, "" where there is none.
func headerOf(ctx context.Context, name string) string {
	if name == "" {
		return ""
	}
	if headers, ok := ctx.Value(headersKey{}).(http.Header); ok {
		return headers.Get(name)
	}
	if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
		return values[0]
	}
	return ""
}
