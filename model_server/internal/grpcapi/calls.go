package grpcapi

import (
	"context"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"afo/model_server/internal/access"
	"afo/model_server/internal/metrics"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
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

// calls is around every call of the services.
type calls struct{ Options }

// deadline is a tap: it bounds the time of a call from its header on, so that a message that never comes whole ends too.
// The transport waits for the message, and for room to write the answer, under the context that it returns. Only whoever
// watches health may take longer, once his message is there.
func (c *calls) deadline(ctx context.Context, info *tap.Info) (context.Context, error) {
	if info.FullMethodName != healthpb.Health_Watch_FullMethodName {
		ctx, cancel := context.WithTimeout(ctx, c.Deadline)
		_ = cancel // The transport ends the parent of this context with the stream, and so this one and its timer.
		return ctx, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(c.Deadline, cancel)
	context.AfterFunc(ctx, func() { timer.Stop() })
	return context.WithValue(ctx, arrivedKey{}, timer.Stop), nil
}

type arrivedKey struct{}

// arrived lifts the bound of a call whose message is there. False: it came too late.
func arrived(ctx context.Context) bool {
	stop, bounded := ctx.Value(arrivedKey{}).(func() bool)
	return !bounded || stop()
}

// register adds a service whose calls are answered by answer. The interceptors of gRPC would come after the whole
// message: a stranger's megabytes would be in memory before he is refused.
func (c *calls) register(server *grpc.Server, described *grpc.ServiceDesc, service any) {
	guarded := *described
	guarded.Methods = slices.Clone(described.Methods)
	for i := range guarded.Methods {
		method := &guarded.Methods[i]
		full, handle := "/"+described.ServiceName+"/"+method.MethodName, method.Handler
		method.Handler = func(service any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return c.answer(ctx, full, func(ctx context.Context) (any, error) {
				return handle(service, ctx, func(message any) error {
					err := decode(message)
					if err == nil {
						entryOf(ctx).RequestBytes = sizeOf(message)
					}
					return err
				}, nil)
			})
		}
	}
	server.RegisterService(&guarded, service)
}

// answer says who asks before the message is read, counts, and takes down.
func (c *calls) answer(ctx context.Context, method string, handle func(context.Context) (any, error)) (response any, err error) {
	entry := &Entry{Began: time.Now(), Method: path.Base(method)}
	if from, ok := peer.FromContext(ctx); ok {
		entry.Peer = from.Addr.String()
		if secured, ok := from.AuthInfo.(credentials.TLSInfo); ok {
			entry.Who = access.CertificateName(&secured.State)
		}
	}
	counted := c.Metrics.Begin("grpc")
	defer func() {
		if wrong := recover(); wrong != nil {
			c.Log.Error("a request met an error of the server", "method", method, "error", wrong, "stack", string(debug.Stack()))
			response, err = nil, status.Error(codes.Internal, "an error of the server, which its log tells")
		}
		err = brief(err)
		c.end(entry, counted, response, err)
	}()
	if c.Authenticate != nil {
		who, err := c.Authenticate(ctx)
		if err != nil {
			return nil, refused(err)
		}
		entry.Who = who
	}
	return handle(context.WithValue(ctx, entryKey{}, entry))
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

func (c *calls) end(entry *Entry, counted func(metrics.Request), response any, err error) {
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
	if c.LogAccess != nil {
		c.LogAccess(*entry)
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
