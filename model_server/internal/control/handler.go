// Package control lets operators see the versions of models and change which of them answer, by HTTP: on a Unix socket for
// the user whose server it is, and on the port of REST for tokens that may.
package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"afo/model_server/internal/access"
	"afo/model_server/internal/models"
	"afo/model_server/internal/strict"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Versions are those of all models: *models.Registry.
type Versions interface {
	State() []models.ModelState
	Rollback(model string, version int64, by string) ([]models.PassedOver, error)
	Promote(model string, version int64, full bool, by string) ([]models.PassedOver, error)
}

// Server is what the state tells of the server itself. An address is nil where nothing listens.
type Server struct {
	Name      string  `json:"name"`
	PID       int     `json:"pid"`
	StartedAt int64   `json:"started_at"`
	GRPC      *string `json:"grpc"`
	REST      *string `json:"rest"`
}

// state is the answer of GET /v1/models.
type state struct {
	Server
	Models []models.ModelState `json:"models"`
}

// outcome is the answer of a call.
type outcome struct {
	models.ModelState
	PassedOver []models.PassedOver `json:"passed_over"`
}

// mostBody is far more than a version takes.
const mostBody = 4 << 10

const modelsPath = "/v1/models"

// Handler answers on the socket, whose callers may do everything.
func Handler(server Server, versions Versions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+modelsPath, States(server, versions))
	steer := Steer(versions)
	mux.HandleFunc("POST "+modelsPath+"/{call}", func(w http.ResponseWriter, r *http.Request) {
		if !IsCall(r) {
			fail(w, status.Errorf(codes.NotFound, "there is nothing at %.200s; there is %s/NAME:rollback and NAME:promote", r.URL.Path, modelsPath))
			return
		}
		steer(w, r, "the server's user")
	})
	return mux
}

// States tells the whole state.
func States(server Server, versions Versions) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, state{server, versions.State()})
	})
}

// IsCall says whether a request is one of those that Steer takes.
func IsCall(r *http.Request) bool {
	_, _, ok := callOf(r.URL.Path)
	return r.Method == http.MethodPost && ok
}

// callOf is a model and what is to be done with it.
func callOf(path string) (model, call string, ok bool) {
	name, ok := strings.CutPrefix(path, modelsPath+"/")
	model, call, found := strings.Cut(name, ":")
	return model, call, ok && found && model != "" && (call == "rollback" || call == "promote")
}

// Steer makes the calls, of whoever may make them. An answer is the state of the model after it, and which versions
// could not be taken.
func Steer(versions Versions) func(w http.ResponseWriter, r *http.Request, who string) {
	return func(w http.ResponseWriter, r *http.Request, who string) {
		model, call, _ := callOf(r.URL.Path)
		entry := access.EntryOf(r.Context())
		entry.Model, entry.Method = model, call
		version, full, err := readBody(w, r)
		if err == nil && full && call != "promote" {
			err = status.Error(codes.InvalidArgument, "full is true; it is for promote alone, a rollback is at once")
		}
		if err != nil {
			fail(w, err)
			return
		}
		// A version may take long to load: the deadlines are of requests for scores.
		connection := http.NewResponseController(w)
		connection.SetReadDeadline(time.Time{})  //nolint:errcheck // not a connection
		connection.SetWriteDeadline(time.Time{}) //nolint:errcheck
		var passed []models.PassedOver
		if call == "rollback" {
			passed, err = versions.Rollback(model, version, who)
		} else {
			passed, err = versions.Promote(model, version, full, who)
		}
		if err != nil {
			fail(w, err)
			return
		}
		for _, each := range versions.State() {
			if each.Name == model {
				if each.ServingVersion != nil {
					entry.Version = *each.ServingVersion
				}
				write(w, http.StatusOK, outcome{each, append([]models.PassedOver{}, passed...)})
			}
		}
	}
}

// readBody reads `{"version": 3, "full": true}`; 0 and false for a body without them.
func readBody(w http.ResponseWriter, r *http.Request) (version int64, full bool, err error) {
	if r.URL.RawQuery != "" {
		return 0, false, status.Errorf(codes.InvalidArgument, "the request has the query %.200q, which is not read; a version is in the body: `{\"version\": 3}`",
			r.URL.RawQuery)
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		return 0, false, status.Errorf(codes.InvalidArgument, "the body cannot be read: %v", err)
	}
	if strings.TrimSpace(string(text)) == "" {
		return 0, false, nil
	}
	var read struct {
		// The texts, as null is not the same as none.
		Version json.RawMessage `json:"version"`
		Full    json.RawMessage `json:"full"`
	}
	if err = strict.Unmarshal(text, &read); err == nil {
		err = errors.Join(readKey("version", read.Version, &version), readKey("full", read.Full, &full))
	}
	if err != nil {
		return 0, false, status.Errorf(codes.InvalidArgument, "the body is not `{\"version\": 3}` or `{\"full\": true}`, nor `{}` for the version that is"+
			" meant without one: %v", err)
	}
	if read.Version != nil && version < 1 {
		return 0, false, status.Errorf(codes.InvalidArgument, "version is %d; allowed: 1 or more, or none", version)
	}
	return version, full, nil
}

func readKey(name string, text json.RawMessage, into any) error {
	switch {
	case text == nil:
		return nil
	case string(text) == "null":
		return fmt.Errorf("%s is null; leave it out", name)
	}
	return json.Unmarshal(text, into)
}

func fail(w http.ResponseWriter, err error) {
	of := status.Convert(err)
	write(w, statusOf(of.Code()), map[string]string{"error": of.Message()})
}

func statusOf(code codes.Code) int {
	switch code {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.NotFound:
		return http.StatusNotFound
	case codes.FailedPrecondition, codes.Aborted:
		return http.StatusConflict
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func write(w http.ResponseWriter, code int, of any) {
	text, err := json.Marshal(of)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"error": "the answer is no JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(append(text, '\n')) //nolint:errcheck // the client has gone
}
