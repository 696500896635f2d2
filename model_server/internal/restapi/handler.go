// Package restapi answers requests as TensorFlow Serving's REST API does, so that its clients work unchanged.
package restapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"afo/model_server/internal/models"
)

// Options are the limits of requests.
type Options struct {
	// Of a body, packed or not; 0: 16 MiB.
	MaxBodyBytes int64
	// Of a request, and before that of the arrival of its body; 0: none.
	Timeout time.Duration
	// Begin is called when a request comes, and what it returns once, when it is answered; nil: nothing is.
	Begin func(context.Context) func(Observation)
}

// Observation is what a request was, for metrics and the access log.
type Observation struct {
	// predict, classify, regress, metadata or status; "" where the path has none.
	Method string
	// As the path has it: of a model that is not served it is whatever a client wrote, and no label of a metric.
	Model string
	// That answered; 0 where none did.
	Version int64
	// Of HTTP.
	Status  int
	Elapsed time.Duration
	// Of the bodies; the request's as it is once unpacked.
	RequestBytes, ResponseBytes int
}

type handler struct {
	predictor models.Predictor
	options   Options
}

// New returns a handler for the paths under /v1/models.
func New(predictor models.Predictor, options Options) http.Handler {
	if options.MaxBodyBytes == 0 {
		options.MaxBodyBytes = 16 << 20
	}
	return &handler{predictor, options}
}

// answer is what is known of a request while it is answered.
type answer struct {
	target  target
	version int64
	asked   int // bytes
	status  int
	body    []byte
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	// Until it is known better, for a panic of the predictor.
	to := answer{status: http.StatusInternalServerError}
	if h.options.Begin != nil {
		start, end := time.Now(), h.options.Begin(ctx)
		defer func() { end(to.observed(time.Since(start))) }()
	}
	if h.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.options.Timeout)
		defer cancel()
	}
	limitRead(w, h.options.Timeout)
	err := h.answer(ctx, w, r, &to)
	to.status = http.StatusOK
	if err != nil {
		to.status, to.body = errorAnswer(w.Header(), err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(to.body)))
	w.WriteHeader(to.status)
	w.Write(to.body) //nolint:errcheck // the client has gone, and nobody is left to tell
}

func (a *answer) observed(elapsed time.Duration) Observation {
	return Observation{a.target.method, a.target.spec.Name, a.version, a.status, elapsed, a.asked, len(a.body)}
}

func (h *handler) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, to *answer) error {
	var err error
	if to.target, err = parsePath(r.URL.EscapedPath(), h.predictor.Names); err != nil {
		return err
	}
	if allowed := to.target.allowed(); r.Method != allowed && !(allowed == http.MethodGet && r.Method == http.MethodHead) {
		w.Header().Set("Allow", allowed)
		return &httpError{http.StatusMethodNotAllowed, "the method is " + quoted(r.Method) + "; this path takes " + allowed}
	}
	switch to.target.method {
	case "status":
		return h.status(to)
	case "metadata":
		return h.metadata(to)
	case "predict":
		text, err := readBody(w, r, h.options.MaxBodyBytes)
		if err != nil {
			return err
		}
		to.asked = len(text)
		err = h.predict(ctx, r.Header, text, to)
		var of *bodyError
		if errors.As(err, &of) {
			return status.Errorf(codes.InvalidArgument, "%s %s", placeOf(text, of.at), of.text)
		}
		return err
	}
	return status.Errorf(codes.Unimplemented, ":%s is not served; a model is asked with :predict, which has all outputs of its signature",
		to.target.method)
}

func (h *handler) predict(ctx context.Context, headers http.Header, text []byte, to *answer) error {
	parsed, err := parseBody(text)
	if err != nil {
		return err
	}
	signatures, _, err := h.predictor.Signatures(to.target.spec)
	if err != nil {
		return err
	}
	signature, err := parsed.signatureOf(signatures)
	if err != nil {
		return err
	}
	inputs, err := parsed.read(signature)
	if err != nil {
		return err
	}
	// Not of the version that the signature is of: it may be unloaded by now, and the next one takes the same inputs, or
	// says that it does not.
	request := appendRequest(nil, to.target.spec, parsed.signature, inputs)
	response, version, err := h.predictor.Predict(models.WithHeaders(ctx, headers), to.target.spec, request)
	// Of an error too, where a version gave it.
	to.version = version
	if err != nil {
		return err
	}
	outputs, err := parseOutputs(response)
	if err != nil {
		return err
	}
	if parsed.row {
		to.body, err = appendRows(nil, outputs)
		return err
	}
	to.body = appendColumns(nil, outputs)
	return nil
}

// errorAnswer is the status and the body of an error.
func errorAnswer(header http.Header, err error) (int, []byte) {
	written, text := http.StatusInternalServerError, err.Error()
	var own *httpError
	if errors.As(err, &own) {
		written = own.status
	} else {
		of, known := status.FromError(err)
		if !known {
			of = status.FromContextError(err)
		}
		written, text = codeOf(of.Code()).http, of.Message()
	}
	if written == http.StatusTooManyRequests || written == http.StatusServiceUnavailable {
		header.Set("Retry-After", "1")
	}
	body, _ := json.Marshal(map[string]string{"error": strings.ToValidUTF8(text, "\uFFFD")}) // of strings: it has no errors
	return written, append(body, '\n')
}
