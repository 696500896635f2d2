package models

import (
	"fmt"
	"time"

	"afo/model_server/internal/rollout"
)

// ModelState is all that is known of a model, as GET /v1/models has it. Times are seconds since 1970.
type ModelState struct {
	Name           string `json:"name"`
	BasePath       string `json:"base_path"`
	ServingVersion *int64 `json:"serving_version"`
	Pinned         bool   `json:"pinned"`
	// PinnedVersion may be gone: then another one answers.
	PinnedVersion     *int64              `json:"pinned_version"`
	Canary            *CanaryState        `json:"canary"`
	Split             map[string]float64  `json:"split"`
	Mirror            *MirrorState        `json:"mirror"`
	Rejected          []rollout.Rejection `json:"rejected"`
	RequestsPerSecond float64             `json:"requests_per_second"`
	// Waiting is how many versions wait, of which the newest are in Versions.
	Waiting  int64          `json:"waiting"`
	Versions []VersionState `json:"versions"`
}

// CanaryState is how a canary under way stands.
type CanaryState struct {
	Version        int64    `json:"version"`
	TrafficPercent float64  `json:"traffic_percent"`
	Since          int64    `json:"since"`
	Requests       int64    `json:"requests"`
	ErrorRate      float64  `json:"error_rate"`
	LatencyRatio   *float64 `json:"latency_ratio"`
	ScorePSI       *float64 `json:"score_psi"`
	// DurationSeconds and MinRequests are what it has to reach; Waits is what its end waits for.
	DurationSeconds float64 `json:"duration_seconds"`
	MinRequests     int64   `json:"min_requests"`
	Waits           string  `json:"waits"`
}

// MirrorState is of the requests that are asked again.
type MirrorState struct {
	Label    string   `json:"label"`
	Percent  float64  `json:"percent"`
	Requests int64    `json:"requests"`
	Dropped  int64    `json:"dropped"`
	Errors   int64    `json:"errors"`
	ScorePSI *float64 `json:"score_psi"`
}

// VersionState is one version. What is not known of it, or of one that is not loaded, is nil.
type VersionState struct {
	Version           int64    `json:"version"`
	State             string   `json:"state"`
	Message           string   `json:"message"`
	Step              *int64   `json:"step"`
	NewestGradient    *int64   `json:"newest_gradient"`
	LoadedAt          *int64   `json:"loaded_at"`
	Layers            *int64   `json:"layers"`
	TableBytes        *int64   `json:"table_bytes"`
	SharedTableBytes  *int64   `json:"shared_table_bytes"`
	Requests          int64    `json:"requests"`
	Errors            int64    `json:"errors"`
	RequestsPerSecond float64  `json:"requests_per_second"`
	P50               *float64 `json:"p50_ms"`
	P99               *float64 `json:"p99_ms"`
	Core              *float64 `json:"core_ms"`
}

// State is that of all models, by name.
func (r *Registry) State() []ModelState {
	all := []ModelState{}
	for _, name := range r.Names() {
		all = append(all, r.models[name].state())
	}
	return all
}

func (m *model) state() ModelState {
	for _, each := range m.served.Load().versions {
		each.askShared(m.shared.now())
	}
	statuses := m.statuses(0)
	m.deciding.Lock()
	defer m.deciding.Unlock()
	served := m.served.Load()
	state := ModelState{
		Name: m.Name, BasePath: m.BasePath, Pinned: m.held.Pinned != 0, Canary: m.canaryState(), Mirror: m.mirrorState(served),
		Rejected: append([]rollout.Rejection{}, m.held.Rejected...), Versions: []VersionState{},
	}
	if pinned := m.held.Pinned; pinned != 0 {
		state.PinnedVersion = &pinned
	}
	if number := served.route.Default; number != 0 {
		state.ServingVersion = &number
	}
	if m.splits() && m.held.Pinned == 0 {
		state.Split = m.Traffic.Split
	}
	_, state.RequestsPerSecond = m.window.Read(m.shared.now())
	for _, each := range statuses {
		state.Versions = append(state.Versions, m.versionState(each, served.find(each.Version)))
	}
	state.Versions, state.Waiting = m.withWaiting(state.Versions)
	return state
}

func (m *model) canaryState() *CanaryState {
	if m.trial == nil {
		return nil
	}
	gate := m.Canary.Gate.Bounds()
	reading := gate.Read(&m.trial.Trial)
	return &CanaryState{
		Version: m.trial.version, TrafficPercent: m.Canary.TrafficPercent, Since: m.trial.since.Unix(), Requests: reading.Requests,
		ErrorRate: reading.ErrorRate, LatencyRatio: reading.LatencyRatio, ScorePSI: reading.ScorePSI,
		DurationSeconds: m.Canary.Duration().Seconds(), MinRequests: gate.MinRequests, Waits: m.waitsFor(gate.Judge(reading)),
	}
}

// waitsFor is what keeps a canary from its end: what the gate cannot judge yet, or else its duration. Under deciding.
func (m *model) waitsFor(verdict rollout.Verdict) string {
	left := m.Canary.Duration() - m.shared.now().Sub(m.trial.since)
	if verdict.Waits == "" && left > 0 {
		return fmt.Sprintf("its duration %s is over in %s", m.Canary.Duration(), left.Round(time.Second))
	}
	return verdict.Waits
}

func (m *model) mirrorState(served *serving) *MirrorState {
	if m.Traffic == nil || m.Traffic.Mirror == nil {
		return nil
	}
	state := &MirrorState{Label: m.Traffic.Mirror.Label, Percent: m.Traffic.Mirror.Percent, Requests: m.mirrored.requests.Load(),
		Dropped: m.mirrored.dropped.Load(), Errors: m.mirrored.errors.Load()}
	if served.mirror != nil {
		state.ScorePSI = served.mirror.psi()
	}
	return state
}

// versionState is of a version that is loaded, or of nil.
func (m *model) versionState(is VersionStatus, of *version) VersionState {
	state := VersionState{Version: is.Version, State: is.State.String(), Message: is.Message}
	if of == nil {
		return state
	}
	if of.stepUnknown == nil {
		state.Step = &of.Step
	}
	state.NewestGradient, state.LoadedAt = unixSeconds(of.trained), unixSeconds(of.observed.loaded)
	state.Layers, state.TableBytes, state.SharedTableBytes = count(of.Layers), count(of.TableBytes), of.sharing.now()
	state.Requests, state.Errors = of.observed.requests.Load(), of.observed.errors.Load()
	times, rate := of.observed.window.Read(m.shared.now())
	state.RequestsPerSecond, state.P50, state.P99 = rate, milliseconds(times.Quantile(0.5)), milliseconds(times.Quantile(0.99))
	if measured, ok := of.model.(interface {
		MeanCPU() (time.Duration, bool)
	}); ok {
		state.Core = milliseconds(measured.MeanCPU())
	}
	return state
}

func unixSeconds(at time.Time) *int64 {
	if at.IsZero() {
		return nil
	}
	seconds := at.Unix()
	return &seconds
}

func milliseconds(of time.Duration, known bool) *float64 {
	if !known {
		return nil
	}
	number := float64(of) / float64(time.Millisecond)
	return &number
}
