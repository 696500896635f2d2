package restapi

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"afo/model_server/internal/models"
)

// A name is percent-decoded only after the path is taken apart: it may have a `/` that way.
var (
	predictionPath = regexp.MustCompile(`^(?i:/v1/models)/([^/:]+)(?:/(?i:versions)/(\d+)|/(?i:labels)/([^/:]+))?:(?i:(classify|regress|predict))$`)
	statusPath     = regexp.MustCompile(`^(?i:/v1/models)/([^/:]+)(?:/(?i:versions)/(\d+)|/(?i:labels)/([^/:]+))?(?:/(?i:(metadata)))?$`)
	modelsPath     = regexp.MustCompile(`^(?i:/v1/models)/?$`)
)

// target is what the path of a request asks for.
type target struct {
	spec   models.Spec
	method string // predict, classify, regress, metadata or status
}

// allowed is the HTTP method of a target, for the header Allow.
func (t target) allowed() string {
	if t.method == "metadata" || t.method == "status" {
		return http.MethodGet
	}
	return http.MethodPost
}

// parsePath reads an escaped path.
func parsePath(path string, served func() []string) (target, error) {
	parts := predictionPath.FindStringSubmatch(path)
	if parts == nil {
		parts = statusPath.FindStringSubmatch(path)
	}
	if parts == nil && modelsPath.MatchString(path) {
		return target{}, status.Errorf(codes.InvalidArgument, "the path names no model; served are %s", joined(served()))
	}
	if parts == nil {
		return target{}, status.Errorf(codes.NotFound, "there is nothing at %s; there is /v1/models/NAME, /v1/models/NAME/metadata "+
			"and /v1/models/NAME:predict, each with /versions/N or /labels/LABEL after NAME", quoted(path))
	}
	parsed := target{method: lower(parts[4])}
	if parsed.method == "" {
		parsed.method = "status"
	}
	var err error
	if parsed.spec.Name, err = decoded(parts[1]); err != nil {
		return target{}, err
	}
	if parsed.spec.Label, err = decoded(parts[3]); err != nil {
		return target{}, err
	}
	parsed.spec.Version, err = parseVersion(parts[2])
	return parsed, err
}

func lower(method string) string {
	lowered := []byte(method)
	for i := range lowered {
		lowered[i] |= 0x20
	}
	return string(lowered)
}

func decoded(part string) (string, error) {
	name, err := url.PathUnescape(part)
	if err != nil {
		return "", status.Errorf(codes.InvalidArgument, "the path has a wrong percent-encoding in %s", quoted(part))
	}
	return name, nil
}

// parseVersion is 0, the newest, only where the path has no version.
func parseVersion(part string) (int64, error) {
	if part == "" {
		return 0, nil
	}
	version, err := strconv.ParseInt(part, 10, 64)
	if err != nil {
		return 0, status.Errorf(codes.InvalidArgument, "the path has the version %s, which is beyond 64 bits", quoted(part))
	}
	if version == 0 {
		return 0, status.Error(codes.NotFound, "there is no version 0: versions are counted from 1")
	}
	return version, nil
}
