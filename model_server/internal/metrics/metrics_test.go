package metrics

import (
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"afo/model_server/internal/concurrency"
	"afo/model_server/internal/models"
	"afo/model_server/internal/rollout"
)

func scraped(m *Metrics) string {
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	return recorder.Body.String()
}

func has(t *testing.T, m *Metrics, is bool, line string) {
	t.Helper()
	if text := scraped(m); strings.Contains(text, line) != is {
		t.Errorf("%q is there: %v; expected %v\n%s", line, !is, is, text)
	}
}

func TestRequestsAreCounted(t *testing.T) {
	m := New([]string{"ctr"})
	end := m.Begin("grpc")
	has(t, m, true, `afo_serving_requests_in_flight{api="grpc"} 1`)
	end(Request{API: "grpc", Method: "Predict", Code: "OK", Model: "ctr", Version: 3, Took: 4 * time.Millisecond, RequestBytes: 10, ResponseBytes: 20})
	for _, line := range []string{
		`afo_serving_requests_total{api="grpc",code="OK",method="Predict",model="ctr",version="3"} 1`,
		`afo_serving_request_duration_seconds_bucket{api="grpc",model="ctr",le="0.005"} 1`,
		`afo_serving_requests_in_flight{api="grpc"} 0`,
		`afo_serving_request_bytes{api="grpc",model="ctr"} 10`,
		`afo_serving_response_bytes{api="grpc",model="ctr"} 20`,
	} {
		has(t, m, true, line)
	}
}

func TestSharesOfConcurrencyAreShown(t *testing.T) {
	m := New([]string{"ctr", "cvr"})
	slots := concurrency.New([]string{"ctr", "cvr"}, concurrency.Limits{Concurrent: 4, Reserved: map[string]int{"cvr": 1}})
	m.Concurrency(slots.Use)
	has(t, m, true, `afo_serving_concurrency_share{model="ctr"} 3`)
	has(t, m, true, `afo_serving_concurrency_share{model="cvr"} 1`)
	has(t, m, true, `afo_serving_requests_waiting{model="ctr"} 0`)
}

func TestNamesThatAreNotKnownMakeNoSeries(t *testing.T) {
	m := New([]string{"ctr"})
	for _, name := range []string{"x", "y", "\xff"} {
		m.Begin("grpc")(Request{Method: "Predict", Code: "NotFound", Model: name, Version: 5})
	}
	has(t, m, true, `afo_serving_requests_total{api="grpc",code="NotFound",method="Predict",model="",version=""} 3`)
	has(t, m, false, `"x"`)
}

func TestVersionsComeAndGo(t *testing.T) {
	m := New([]string{"ctr"})
	m.State("ctr", 3, models.StateLoading)
	m.Loaded("ctr", 3, time.Second, nil)
	m.State("ctr", 3, models.StateAvailable)
	m.Available("ctr", 3, 700, time.Unix(1234, 0), time.Unix(1200, 500e6))
	m.Loaded("ctr", 4, time.Second, errors.New("broken"))
	for _, line := range []string{
		`afo_serving_model_version{model="ctr",state="AVAILABLE",version="3"} 1`,
		`afo_serving_model_step{model="ctr",version="3"} 700`,
		`afo_serving_model_exported_timestamp_seconds{model="ctr",version="3"} 1234`,
		`afo_serving_model_newest_gradient_timestamp_seconds{model="ctr",version="3"} 1200.5`,
		`afo_serving_model_loads_total{model="ctr",result="ok"} 1`,
		`afo_serving_model_loads_total{model="ctr",result="failed"} 1`,
		`afo_serving_model_load_seconds_count{model="ctr"} 2`,
	} {
		has(t, m, true, line)
	}
	has(t, m, false, "LOADING")
	m.Begin("grpc")(Request{API: "grpc", Method: "Predict", Code: "OK", Model: "ctr", Version: 3})
	m.State("ctr", 3, models.StateEnd)
	has(t, m, false, "afo_serving_model_step{")
	m.Begin("grpc")(Request{API: "grpc", Method: "Predict", Code: "OK", Model: "ctr"})
	m.Begin("rest")(Request{API: "rest", Method: "predict", Code: "200", Model: "ctr", Version: 4})
	m.Gone("ctr", 3)
	has(t, m, false, `version="3"`)
	// The sum over the versions is what it was.
	has(t, m, true, `afo_serving_requests_total{api="grpc",code="OK",method="Predict",model="ctr",version=""} 2`)
	has(t, m, true, `afo_serving_requests_total{api="rest",code="200",method="predict",model="ctr",version="4"} 1`)
}

func TestNoCountIsLostWhileAVersionGoes(t *testing.T) {
	m := New([]string{"ctr"})
	var counting sync.WaitGroup
	for range 4 {
		counting.Go(func() {
			for range 100 {
				m.Begin("grpc")(Request{API: "grpc", Method: "Predict", Code: "OK", Model: "ctr", Version: 3})
			}
		})
	}
	for range 20 {
		m.Gone("ctr", 3)
	}
	counting.Wait()
	m.Gone("ctr", 3)
	has(t, m, true, `afo_serving_requests_total{api="grpc",code="OK",method="Predict",model="ctr",version=""} 400`)
}

func TestLinesThatTheAccessLogLostAreCounted(t *testing.T) {
	m := New(nil)
	m.AccessLog(func() int64 { return 3 }, func() int64 { return 5 })
	has(t, m, true, `afo_serving_access_log_lines_lost_total{reason="dropped"} 3`)
	has(t, m, true, `afo_serving_access_log_lines_lost_total{reason="failed"} 5`)
}

func TestConnectionsAreCounted(t *testing.T) {
	m := New(nil)
	m.Connections("grpc", func() int64 { return 3 }, func() int64 { return 5 })
	m.Connections("rest", func() int64 { return 0 }, func() int64 { return 0 })
	has(t, m, true, `afo_serving_connections{api="grpc"} 3`)
	has(t, m, true, `afo_serving_connections_refused_total{api="grpc"} 5`)
	has(t, m, true, `afo_serving_connections{api="rest"} 0`)
}

func TestRolloutsAreCounted(t *testing.T) {
	m := New([]string{"ctr"})
	index := 0.25
	m.Canary("ctr", "rejected")
	m.Rejected("ctr", rollout.ByScores)
	m.Mirrored("ctr", "dropped")
	m.Pinned("ctr", true)
	m.Drift("ctr", "canary", &index)
	m.Drift("ctr", "mirror", &index)
	m.Drift("ctr", "mirror", nil)
	for _, line := range []string{
		`afo_serving_canaries_total{model="ctr",result="rejected"} 1`,
		`afo_serving_rejections_total{cause="scores",model="ctr"} 1`,
		`afo_serving_mirrored_requests_total{model="ctr",result="dropped"} 1`,
		`afo_serving_model_pinned{model="ctr"} 1`,
		`afo_serving_score_psi{model="ctr",of="canary"} 0.25`,
	} {
		has(t, m, true, line)
	}
	has(t, m, false, `of="mirror"`)
	m.Available("ctr", 3, 700, time.Unix(1234, 0), time.Unix(1200, 0))
	m.Available("ctr", 3, 700, time.Unix(1234, 0), time.Time{})
	has(t, m, false, "newest_gradient")
}
