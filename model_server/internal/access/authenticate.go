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
	noTokens   = "versions are changed at this port by a token that may: set tokens_file, with a line `NAME TOKEN admin`; or on the" +
		" server's machine through its socket, which control.socket names"
	noAdmin = "the token may not change versions; its line in the tokens file needs a third word: `NAME TOKEN admin`"
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
	w.Header().Set("WWW-Authenticate", "Bearer")
	answer(w, http.StatusUnauthorized, wrong)
}

func answer(w http.ResponseWriter, status int, wrong string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"error": wrong}) //nolint:errcheck // the client has gone
}

// Admin lets requests through whose token may change what is served, and says to others what they need.
func (t *Tokens) Admin(next func(w http.ResponseWriter, r *http.Request, who string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t == nil {
			answer(w, http.StatusForbidden, noTokens)
			return
		}
		found, wrong := t.tokenOf(r.Header.Values("Authorization"))
		switch {
		case wrong != "":
			refuse(w, r, wrong)
		case !found.admin:
			answer(w, http.StatusForbidden, noAdmin)
		default:
			next(w, r, found.name)
		}
	})
}

// whose is the name of the token in the values of the header.
func (t *Tokens) whose(headers []string) (who, wrong string) {
	found, wrong := t.tokenOf(headers)
	return found.name, wrong
}

// tokenOf reads the values of the header, of which there is one.
func (t *Tokens) tokenOf(headers []string) (found token, wrong string) {
	switch len(headers) {
	case 0:
		return token{}, noToken
	case 1:
	default:
		return token{}, manyTokens
	}
	scheme, presented, ok := strings.Cut(headers[0], " ")
	presented = strings.TrimSpace(presented)
	if !ok || !strings.EqualFold(scheme, "Bearer") || presented == "" {
		return token{}, noToken
	}
	if found, ok = t.find(presented); !ok {
		return token{}, wrongToken
	}
	return found, ""
}
