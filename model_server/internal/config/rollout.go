package config

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"afo/model_server/internal/rollout"
)

// Control is how the server is steered while it runs.
type Control struct {
	// Socket is a Unix socket, of which the owner alone may ask.
	Socket string `json:"socket"`
	// StateFile keeps what was decided over a restart.
	StateFile string `json:"state_file"`
}

// Canary is how a new version comes to answer all requests.
type Canary struct {
	TrafficPercent  float64 `json:"traffic_percent"`
	DurationSeconds float64 `json:"duration"`
	HashHeader      string  `json:"hash_header"`
	Gate            Gate    `json:"gate"`
}

// Gate are the bounds that a canary is held to.
type Gate struct {
	MaxErrorRate    *float64 `json:"max_error_rate"`
	MaxLatencyRatio *float64 `json:"max_latency_ratio"`
	MaxScorePSI     *float64 `json:"max_score_psi"`
	MinRequests     *int64   `json:"min_requests"`
}

// Traffic shares requests out between versions that are served side by side.
type Traffic struct {
	HashHeader string `json:"hash_header"`
	// Split are shares of labels in percent; empty: all requests go to one version.
	Split  map[string]float64 `json:"split"`
	Mirror *Mirror            `json:"mirror"`
}

// Mirror is a version that is asked too, and whose answers nobody gets.
type Mirror struct {
	Label   string  `json:"label"`
	Percent float64 `json:"percent"`
}

// Duration is how long a canary has its share.
func (c *Canary) Duration() time.Duration { return seconds(c.DurationSeconds) }

// Bounds are those of the gate.
func (g Gate) Bounds() rollout.Gate {
	return rollout.Gate{MaxErrorRate: *g.MaxErrorRate, MaxLatencyRatio: *g.MaxLatencyRatio, MaxScorePSI: *g.MaxScorePSI, MinRequests: *g.MinRequests}
}

func (c *Canary) fill() {
	if c == nil {
		return
	}
	if c.TrafficPercent == 0 {
		c.TrafficPercent = 5
	}
	if c.DurationSeconds == 0 {
		c.DurationSeconds = 600
	}
	c.Gate.MaxErrorRate = orElse(c.Gate.MaxErrorRate, 0.01)
	c.Gate.MaxLatencyRatio = orElse(c.Gate.MaxLatencyRatio, 1.5)
	c.Gate.MaxScorePSI = orElse(c.Gate.MaxScorePSI, 0.2)
	c.Gate.MinRequests = orElse(c.Gate.MinRequests, 200)
}

func orElse[T any](value *T, otherwise T) *T {
	if value == nil {
		return &otherwise
	}
	return value
}

func (m Model) checkRollout() error {
	if m.Canary != nil && m.Traffic != nil && len(m.Traffic.Split) > 0 {
		return errors.New("canary and traffic.split are both there: a split says itself what a new version gets; remove one")
	}
	if m.Canary != nil && m.Versions.Latest == 0 {
		return errors.New("canary is of new versions, which model_version_policy takes up as `latest` alone; use that, or remove canary")
	}
	return errors.Join(m.Canary.check(), m.Traffic.check(m.VersionLabels))
}

func (c *Canary) check() error {
	if c == nil {
		return nil
	}
	if !(c.TrafficPercent > 0 && c.TrafficPercent < 100) {
		return fmt.Errorf("canary.traffic_percent is %v; allowed: more than 0 and less than 100, as the rest is what it is compared with", c.TrafficPercent)
	}
	if least := *c.Gate.MinRequests; least < 1 || least > mostCompared {
		return fmt.Errorf("canary.gate.min_requests is %d; allowed: 1 to %d", least, mostCompared)
	}
	return errors.Join(
		checkSeconds("canary.duration", c.DurationSeconds, 0.001), checkHeader("canary.hash_header", c.HashHeader),
		checkBound("canary.gate.max_error_rate", *c.Gate.MaxErrorRate), checkBound("canary.gate.max_latency_ratio", *c.Gate.MaxLatencyRatio),
		checkBound("canary.gate.max_score_psi", *c.Gate.MaxScorePSI), checkPSI(*c.Gate.MaxScorePSI))
}

const mostCompared = 1 << 30

func checkBound(key string, value float64) error {
	if !(value >= 0 && value <= math.MaxFloat32) {
		return fmt.Errorf("%s is %v; allowed: 0 or more", key, value)
	}
	return nil
}

// checkPSI refuses what no number of scores would be enough for.
func checkPSI(bound float64) error {
	if bound < leastPSI {
		return fmt.Errorf("canary.gate.max_score_psi is %v; allowed: %v or more, as equal versions differ by chance", bound, leastPSI)
	}
	return nil
}

const leastPSI = 0.001

func (t *Traffic) check(labels map[string]int64) error {
	if t == nil {
		return nil
	}
	sum := 0.0
	for label, percent := range t.Split {
		if _, known := labels[label]; !known {
			return fmt.Errorf("traffic.split has %q, which is no label of version_labels", label)
		}
		if !(percent > 0 && percent <= 100) {
			return fmt.Errorf("traffic.split: %q has %v percent; allowed: more than 0, 100 at most", label, percent)
		}
		sum += percent
	}
	if len(t.Split) > 0 && math.Abs(sum-100) > 1e-6 {
		return fmt.Errorf("traffic.split has %v percent in all; its shares sum to 100", sum)
	}
	if len(t.Split) == 0 && t.Mirror == nil {
		return errors.New("traffic has neither split nor mirror; set one of them, or remove it")
	}
	return errors.Join(checkHeader("traffic.hash_header", t.HashHeader), t.Mirror.check(labels))
}

func (m *Mirror) check(labels map[string]int64) error {
	if m == nil {
		return nil
	}
	if _, known := labels[m.Label]; !known {
		return fmt.Errorf("traffic.mirror.label is %q, which is no label of version_labels", m.Label)
	}
	if !(m.Percent > 0 && m.Percent <= 100) {
		return fmt.Errorf("traffic.mirror.percent is %v; allowed: more than 0, 100 at most", m.Percent)
	}
	return nil
}

// checkHeader takes what HTTP has for a header and gRPC for a key of metadata.
func checkHeader(key, name string) error {
	wrong := len(name) > mostNameBytes || strings.HasSuffix(name, "-bin") || name == "authorization"
	for _, each := range name {
		wrong = wrong || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-_", each)
	}
	if wrong {
		return fmt.Errorf("%s is %q; allowed: small letters, digits, - and _, but neither authorization nor a name that ends in -bin", key, name)
	}
	return nil
}

func (c *Control) check() error {
	if c == nil {
		return nil
	}
	for key, path := range map[string]string{"control.socket": c.Socket, "control.state_file": c.StateFile} {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%s is %q; allowed: an absolute path", key, path)
		}
	}
	return nil
}
