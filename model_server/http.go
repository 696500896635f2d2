package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"afo/model_server/internal/config"
	"afo/model_server/internal/control"
	"afo/model_server/internal/metrics"
	"afo/model_server/internal/models"
)

const (
	headerTime = 5 * time.Second
	// answerTime is for a client to read an answer, once it is there.
	answerTime = 30 * time.Second
	// idleTime is how long a connection may wait for its next request.
	idleTime        = 2 * time.Minute
	mostHeaderBytes = 64 << 10
)

// newHTTPServer gives a request as long to arrive as it may take, and ends connections whose clients do not read.
func newHTTPServer(log *slog.Logger, handler http.Handler, deadline time.Duration) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTime, ReadTimeout: headerTime + deadline,
		WriteTimeout: headerTime + deadline + answerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: mostHeaderBytes,
		ErrorLog:       newErrorLog(log, time.Now),
	}
}

// newHandler is all that the REST address answers; leaving is whether the server was told to stop.
func newHandler(settings *config.Config, predictor models.Predictor, counted *metrics.Metrics, access access, operators operators, leaving func() bool,
	problems func(model string) []models.Problem) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/", operators.around(newRESTHandler(settings, predictor, counted, access), access))
	mux.Handle("GET /v1/models", control.States(operators.server, operators.versions))
	mux.Handle("GET /metrics", counted.Handler())
	mux.Handle("GET /monitoring/prometheus/metrics", counted.Handler())
	mux.HandleFunc("GET /healthz", func(to http.ResponseWriter, _ *http.Request) { fmt.Fprintln(to, "ok") })
	mux.HandleFunc("GET /readyz", func(to http.ResponseWriter, _ *http.Request) {
		why := "it is stopping"
		if !leaving() {
			if predictor.Ready() {
				fmt.Fprintln(to, "ready")
				return
			}
			why = missing(predictor, problems)
		}
		to.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(to, "not ready: "+why)
	})
	return mux
}

// missing says which models keep the server from being ready, what keeps versions from coming to them, and what helps.
func missing(predictor models.Predictor, problems func(model string) []models.Problem) string {
	var texts []string
	help := ""
	steered, _ := predictor.(interface{ PromoteHelps(model string) bool })
	for _, name := range predictor.Names() {
		if _, _, err := predictor.Signatures(models.Spec{Name: name}); err == nil {
			continue
		}
		if steered != nil && steered.PromoteHelps(name) {
			help += fmt.Sprintf("; a pin or rejections keep versions of %s back: `afo serving promote %s` takes the newest one", name, name)
		}
		if found := problems(name); len(found) > 0 {
			last := found[len(found)-1] // that of the whole directory, where there is one
			name += " (" + onOneLine(last.Path+": "+last.Err.Error()) + ")"
		}
		texts = append(texts, name)
	}
	if len(texts) == 0 {
		return "a version has just changed; ask again"
	}
	return "no version is available of " + strings.Join(texts, ", ") + help
}

// mostWhy is how much of a problem is told: all of it is in the log.
const mostWhy = 300

func onOneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > mostWhy {
		text = strings.ToValidUTF8(text[:mostWhy], "") + "…"
	}
	return text
}
