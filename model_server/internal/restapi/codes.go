package restapi

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

// clientClosedRequest is what nginx, and after it TensorFlow Serving, calls a request whose client has gone.
const clientClosedRequest = 499

// code is what a gRPC code is called in JSON and which status HTTP has for it, as in TensorFlow Serving.
type code struct {
	name string
	http int
}

var allCodes = map[codes.Code]code{
	codes.OK:                 {"OK", http.StatusOK},
	codes.Canceled:           {"CANCELLED", clientClosedRequest},
	codes.Unknown:            {"UNKNOWN", http.StatusInternalServerError},
	codes.InvalidArgument:    {"INVALID_ARGUMENT", http.StatusBadRequest},
	codes.DeadlineExceeded:   {"DEADLINE_EXCEEDED", http.StatusGatewayTimeout},
	codes.NotFound:           {"NOT_FOUND", http.StatusNotFound},
	codes.AlreadyExists:      {"ALREADY_EXISTS", http.StatusConflict},
	codes.PermissionDenied:   {"PERMISSION_DENIED", http.StatusForbidden},
	codes.ResourceExhausted:  {"RESOURCE_EXHAUSTED", http.StatusTooManyRequests},
	codes.FailedPrecondition: {"FAILED_PRECONDITION", http.StatusBadRequest},
	codes.Aborted:            {"ABORTED", http.StatusConflict},
	codes.OutOfRange:         {"OUT_OF_RANGE", http.StatusBadRequest},
	codes.Unimplemented:      {"UNIMPLEMENTED", http.StatusNotImplemented},
	codes.Internal:           {"INTERNAL", http.StatusInternalServerError},
	codes.Unavailable:        {"UNAVAILABLE", http.StatusServiceUnavailable},
	codes.DataLoss:           {"DATA_LOSS", http.StatusInternalServerError},
	codes.Unauthenticated:    {"UNAUTHENTICATED", http.StatusUnauthorized},
}

func codeOf(of codes.Code) code {
	if known, ok := allCodes[of]; ok {
		return known
	}
	return allCodes[codes.Unknown]
}
