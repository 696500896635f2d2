// Package metrics counts what the server does, for Prometheus. Labels are names of the configuration and of calls, never
// a client's text: who asks for models that do not exist makes no new series.
package metrics

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"afo/model_server/internal/concurrency"
	"afo/model_server/internal/models"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// Metrics are all of a server. Any number of goroutines may use them at once.
type Metrics struct {
	registry *prometheus.Registry
	models   map[string]bool

	// Held, to write, while counts of requests go from one series to another: none is lost meanwhile.
	moving        sync.RWMutex
	requests      *prometheus.CounterVec
	seconds       *prometheus.HistogramVec
	inFlight      *prometheus.GaugeVec
	requestBytes  *prometheus.CounterVec
	responseBytes *prometheus.CounterVec

	state    *prometheus.GaugeVec
	step     *prometheus.GaugeVec
	exported *prometheus.GaugeVec
	loading  *prometheus.HistogramVec
	loads    *prometheus.CounterVec

	gradient *prometheus.GaugeVec
	canaries *prometheus.CounterVec
	rejected *prometheus.CounterVec
	mirrored *prometheus.CounterVec
	pinned   *prometheus.GaugeVec
	drift    *prometheus.GaugeVec
}

var _ models.Events = (*Metrics)(nil)

// New makes the metrics of a server of these models.
func New(names []string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), models: map[string]bool{}}
	for _, name := range names {
		m.models[name] = true
	}
	m.requests = counters("requests_total", "Requests, by what they were answered with.", "model", "version", "api", "method", "code")
	m.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name("request_duration_seconds"), Help: "Time from a request's arrival to its answer.",
		Buckets: []float64{.0005, .001, .002, .003, .005, .0075, .01, .015, .02, .03, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"model", "api"})
	m.inFlight = gauges("requests_in_flight", "Requests that are not answered yet.", "api")
	m.requestBytes = counters("request_bytes", "Bytes of requests.", "model", "api")
	m.responseBytes = counters("response_bytes", "Bytes of answers.", "model", "api")
	m.state = gauges("model_version", "1 for the state that a version is in.", "model", "version", "state")
	m.step = gauges("model_step", "Step of the training that a version was exported at.", "model", "version")
	m.exported = gauges("model_exported_timestamp_seconds", "When the SavedModel of a version was written.", "model", "version")
	m.loading = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name("model_load_seconds"), Help: "Time that loading and warming up took.",
		Buckets: prometheus.ExponentialBuckets(.1, 2, 13),
	}, []string{"model"})
	m.loads = counters("model_loads_total", "Versions that were loaded (ok) or could not be (failed).", "model", "result")
	m.makeRollouts()
	m.registry.MustRegister(m.requests, m.seconds, m.inFlight, m.requestBytes, m.responseBytes, m.state, m.step, m.exported,
		m.loading, m.loads, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func name(of string) string { return "afo_serving_" + of }

func counters(of, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name(of), Help: help}, labels)
}

func gauges(of, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name(of), Help: help}, labels)
}

// Handler is what Prometheus scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Request is one that was answered.
type Request struct {
	// API is "grpc" or "rest"; Method and Code are names of it.
	API, Method, Code string
	// Model is what the request asked for, known or not; Version is the one that answered, 0: none.
	Model         string
	Version       int64
	Took          time.Duration
	RequestBytes  int
	ResponseBytes int
}

// Begin counts a request that has arrived. What it returns counts the same one as answered, and is called once.
func (m *Metrics) Begin(api string) func(Request) {
	inFlight := m.inFlight.WithLabelValues(api)
	inFlight.Inc()
	return func(request Request) {
		inFlight.Dec()
		model, version := request.Model, ""
		if !m.models[model] {
			model = ""
		} else if request.Version != 0 {
			version = fmt.Sprint(request.Version)
		}
		m.moving.RLock()
		m.requests.WithLabelValues(model, version, api, request.Method, request.Code).Inc()
		m.moving.RUnlock()
		m.seconds.WithLabelValues(model, api).Observe(request.Took.Seconds())
		m.requestBytes.WithLabelValues(model, api).Add(float64(request.RequestBytes))
		m.responseBytes.WithLabelValues(model, api).Add(float64(request.ResponseBytes))
	}
}

// State implements models.Events.
func (m *Metrics) State(model string, version int64, state models.State) {
	m.state.DeletePartialMatch(of(model, version))
	m.state.WithLabelValues(model, fmt.Sprint(version), state.String()).Set(1)
	if state == models.StateEnd {
		m.step.DeletePartialMatch(of(model, version))
		m.exported.DeletePartialMatch(of(model, version))
		m.gradient.DeletePartialMatch(of(model, version))
	}
}

// Loaded implements models.Events.
func (m *Metrics) Loaded(model string, _ int64, took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.loads.WithLabelValues(model, result).Inc()
	m.loading.WithLabelValues(model).Observe(took.Seconds())
}

// Available implements models.Events.
func (m *Metrics) Available(model string, version int64, step int64, exported, trained time.Time) {
	m.step.WithLabelValues(model, fmt.Sprint(version)).Set(float64(step))
	m.exported.WithLabelValues(model, fmt.Sprint(version)).Set(float64(exported.UnixNano()) / 1e9)
	if trained.IsZero() {
		m.gradient.DeletePartialMatch(of(model, version)) // of the SavedModel that was in its place
		return
	}
	m.gradient.WithLabelValues(model, fmt.Sprint(version)).Set(float64(trained.UnixMicro()) / 1e6)
}

// Gone implements models.Events: a server that runs for months has series of a few versions, not of all that it had.
// What it counted of this one is counted without a version, so that no sum falls.
func (m *Metrics) Gone(model string, version int64) {
	m.state.DeletePartialMatch(of(model, version))
	m.moving.Lock()
	defer m.moving.Unlock()
	for _, each := range collected(m.requests) {
		labels := prometheus.Labels{}
		for _, label := range each.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		if labels["model"] == model && labels["version"] == fmt.Sprint(version) {
			m.requests.Delete(labels)
			labels["version"] = ""
			m.requests.With(labels).Add(each.GetCounter().GetValue())
		}
	}
}

// collected are the series of a metric.
func collected(from prometheus.Collector) []*dto.Metric {
	series := make(chan prometheus.Metric)
	go func() {
		from.Collect(series)
		close(series)
	}()
	var all []*dto.Metric
	for each := range series {
		read := &dto.Metric{}
		if each.Write(read) == nil { // of a counter: it has no errors
			all = append(all, read)
		}
	}
	return all
}

// AccessLog counts the lines that the access log lost, as these functions tell, which never fall.
func (m *Metrics) AccessLog(dropped, failed func() int64) {
	for reason, count := range map[string]func() int64{"dropped": dropped, "failed": failed} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: name("access_log_lines_lost_total"), ConstLabels: prometheus.Labels{"reason": reason},
			Help: "Lines of the access log for which there was no room (dropped), or that could not be written (failed).",
		}, func() float64 { return float64(count()) }))
	}
}

// Concurrency tells what each model has of the requests that are computed at once.
func (m *Metrics) Concurrency(use func() map[string]concurrency.Use) {
	m.registry.MustRegister(&usage{
		use:     use,
		share:   described("concurrency_share", "Requests of a model that are computed at once when all models have some."),
		waiting: described("requests_waiting", "Requests of a model that wait to be computed."),
	})
}

// Connections tells of the address of an API how many connections are open, and how many were refused, which never falls.
func (m *Metrics) Connections(api string, open, refused func() int64) {
	labels := prometheus.Labels{"api": api}
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: name("connections"), ConstLabels: labels, Help: "Connections of clients that are open.",
		}, func() float64 { return float64(open()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: name("connections_refused_total"), ConstLabels: labels,
			Help: "Connections that were closed at once, as limits.connections were open.",
		}, func() float64 { return float64(refused()) }))
}

// usage is collected when it is asked for.
type usage struct {
	use            func() map[string]concurrency.Use
	share, waiting *prometheus.Desc
}

func described(of, help string) *prometheus.Desc {
	return prometheus.NewDesc(name(of), help, []string{"model"}, nil)
}

// Describe implements prometheus.Collector.
func (u *usage) Describe(to chan<- *prometheus.Desc) {
	to <- u.share
	to <- u.waiting
}

// Collect implements prometheus.Collector.
func (u *usage) Collect(to chan<- prometheus.Metric) {
	for model, use := range u.use() {
		to <- prometheus.MustNewConstMetric(u.share, prometheus.GaugeValue, float64(use.Share), model)
		to <- prometheus.MustNewConstMetric(u.waiting, prometheus.GaugeValue, float64(use.Waiting), model)
	}
}

func of(model string, version int64) prometheus.Labels {
	return prometheus.Labels{"model": model, "version": fmt.Sprint(version)}
}
