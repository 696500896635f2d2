package access

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	noToken    = "the request has no token; it is sent as `Authorization: Bearer TOKEN`"
	manyTokens = "the request has more than one header Authorization; it is sent once, as `Authorization: Bearer TOKEN`"
	wrongToken = "the token of the request is not in the tokens file"
)

// NeedsNoToken says of a path of HTTP, or of a method of gRPC as `/service/method`, that whoever watches the server may
// ask it: it says nothing of the models.
func NeedsNoToken(path string) bool {
	return path == "/healthz" || path == "/readyz" || strings.HasPrefix(path, "/grpc.health.v1.Health/")
}

// Authenticate is who makes a call of gRPC: the name of its token. Without tokens it is nobody, "".
func (t *Tokens) Authenticate(ctx context.Context) (who string, err error) {
	if t == nil {
		return "", nil
	}
	sent, _ := metadata.FromIncomingContext(ctx)
	who, wrong := t.whose(sent.Get("authorization"))
	if wrong != "" {
		return "", status.Error(codes.Unauthenticated, wrong)
	}
	return who, nil
}

// HTTP lets requests through that have a token, and notes whose it is.
func (t *Tokens) HTTP(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !NeedsNoToken(r.URL.Path) {
			who, wrong := t.whose(r.Header.Values("Authorization"))
			if wrong != "" {
				refuse(w, r, wrong)
				return
			}
			EntryOf(r.Context()).Who = who
		}
		next.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter, r *http.Request, wrong string) {
	// The body is not read, nor thrown away by the server: a stranger may send it for ever. HTTP/2 ends this request alone.
	http.NewResponseController(w).SetReadDeadline(time.Now()) //nolint:errcheck // not a connection
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("WWW-Authenticate", "Bearer")
	w.WriteHeader(http.StatusUnauthorized)
	json.NewEncoder(w).Encode(map[string]string{"error": wrong}) //nolint:errcheck // the client has gone
}

// whose reads the values of the header, of which there is one.
func (t *Tokens) whose(headers []string) (who, wrong string) {
	switch len(headers) {
	case 0:
		return "", noToken
	case 1:
	default:
		return "", manyTokens
	}
	scheme, presented, ok := strings.Cut(headers[0], " ")
	presented = strings.TrimSpace(presented)
	if !ok || !strings.EqualFold(scheme, "Bearer") || presented == "" {
		return "", noToken
	}
	if who, ok = t.Who(presented); !ok {
		return "", wrongToken
	}
	return who, ""
}
