package grpcapi

import (
	"context"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"afo/model_server/internal/metrics"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Entry is one request, for an access log. It holds nothing of the request's content.
type Entry struct {
	Began time.Time
	Took  time.Duration
	// Who is what Authenticate said; Peer is the address.
	Who, Peer string
	// Method is the name alone, such as Predict.
	Method string
	// Model is what was asked for, a client's text; Version is the one that answered, 0: none.
	Model         string
	Version       int64
	Code          codes.Code
	Message       string
	RequestBytes  int
	ResponseBytes int
}

type entryKey struct{}

// entryOf is where a call notes what it learns of its request.
func entryOf(ctx context.Context) *Entry {
	if entry, ok := ctx.Value(entryKey{}).(*Entry); ok {
		return entry
	}
	return &Entry{}
}

type interceptor struct{ Options }

const healthPrefix = "/grpc.health.v1.Health/"

// intercept is around every call: it says who asks, bounds the time, counts, and takes down.
func (i *interceptor) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (response any, err error) {
	if strings.HasPrefix(info.FullMethod, healthPrefix) {
		return handle(ctx, request)
	}
	entry := &Entry{Began: time.Now(), Method: path.Base(info.FullMethod), RequestBytes: sizeOf(request)}
	if from, ok := peer.FromContext(ctx); ok {
		entry.Peer = from.Addr.String()
	}
	counted := i.Metrics.Begin("grpc")
	defer func() {
		if wrong := recover(); wrong != nil {
			i.Log.Error("a request met an error of the server", "method", info.FullMethod, "error", wrong, "stack", string(debug.Stack()))
			response, err = nil, status.Error(codes.Internal, "an error of the server, which its log tells")
		}
		err = brief(err)
		i.end(entry, counted, response, err)
	}()
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, entryKey{}, entry), i.Deadline)
	defer cancel()
	if i.Authenticate != nil {
		if entry.Who, err = i.Authenticate(ctx); err != nil {
			return nil, refused(err)
		}
	}
	return handle(ctx, request)
}

// refused is an error of Authenticate as a status.
func refused(err error) error {
	if _, is := status.FromError(err); is {
		return err
	}
	return status.Error(codes.Unauthenticated, err.Error())
}

// mostMessageBytes is what clients take: an error's message is in a header, where some have room for 8 KiB in all, and
// a byte takes up to three there.
const mostMessageBytes = 2000

// brief is the error with a message that clients take.
func brief(err error) error {
	found := status.Convert(err)
	if len(found.Message()) <= mostMessageBytes {
		return err
	}
	return status.Error(found.Code(), strings.ToValidUTF8(found.Message()[:mostMessageBytes], "")+" …")
}

func (i *interceptor) end(entry *Entry, counted func(metrics.Request), response any, err error) {
	entry.Took = time.Since(entry.Began)
	answered := status.Convert(err)
	entry.Code, entry.Message = answered.Code(), answered.Message()
	if err == nil {
		entry.ResponseBytes = sizeOf(response)
	}
	counted(metrics.Request{
		API: "grpc", Method: entry.Method, Code: entry.Code.String(), Model: entry.Model, Version: entry.Version,
		Took: entry.Took, RequestBytes: entry.RequestBytes, ResponseBytes: entry.ResponseBytes,
	})
	if i.LogAccess != nil {
		i.LogAccess(*entry)
	}
}

func sizeOf(message any) int {
	switch message := message.(type) {
	case *rawRequest:
		return len(message.bytes())
	case rawResponse:
		return message.size()
	case proto.Message:
		return proto.Size(message)
	default:
		return 0
	}
}
