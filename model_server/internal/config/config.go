// Package config is what the server is told: a JSON object, read strictly, so that a key that is misspelt is an error
// and never a default that nobody asked for.
package config

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"time"

	"afo/model_server/internal/strict"
)

// Config is the whole configuration, in the words of the file that users write: messages name its keys. Durations are
// seconds, sizes are bytes.
type Config struct {
	// Name tells the servers of a user on a machine apart.
	Name         string    `json:"name"`
	Control      *Control  `json:"control"`
	Models       []Model   `json:"models"`
	Processor    Processor `json:"processor"`
	GRPC         Listener  `json:"grpc"`
	REST         Listener  `json:"rest"`
	Limits       Limits    `json:"limits"`
	PollSeconds  float64   `json:"file_system_poll_wait"`
	DelaySeconds float64   `json:"shutdown_delay"`
	DrainSeconds float64   `json:"drain_timeout"`
	TLS          *TLS      `json:"tls"`
	TokensFile   string    `json:"tokens_file"`
	AccessLog    string    `json:"access_log"`
	// CacheDirectory is where models of HDFS are copied to.
	CacheDirectory string    `json:"cache_directory"`
	Kerberos       *Kerberos `json:"kerberos"`
}

// Model is one model and which of its versions are served.
type Model struct {
	Name string `json:"name"`
	// BasePath holds directories whose names are version numbers, or is itself a SavedModel; here, or in HDFS.
	BasePath      string           `json:"base_path"`
	Versions      Versions         `json:"model_version_policy"`
	VersionLabels map[string]int64 `json:"version_labels"`
	Canary        *Canary          `json:"canary"`
	Traffic       *Traffic         `json:"traffic"`
	// Reserved is how many requests of this model are computed at once, which no other model can take; 0: it shares
	// what is not reserved.
	Reserved int `json:"reserved_concurrency"`
	// Copied is where versions of HDFS come to; "": BasePath is here.
	Copied string `json:"-"`
}

// Directory is where versions lie on this machine.
func (m Model) Directory() string { return cmp.Or(m.Copied, m.BasePath) }

// Processor is where the libraries are, and how models are run.
type Processor struct {
	Library             string `json:"library"`
	TensorFlow          string `json:"tensorflow"`
	IntraOpThreads      int    `json:"intra_op_parallelism_threads"`
	InterOpThreads      int    `json:"inter_op_parallelism_threads"`
	EnableInlineExecute bool   `json:"enable_inline_execute"`
	SessionNum          int    `json:"session_num"`
	SessionPolicy       string `json:"select_session_policy"`
	CPUSets             string `json:"cpusets"`
}

// AskersCompute: a request is computed by the thread that asks for it, and no threads are made for a model that compute.
func (p Processor) AskersCompute() bool {
	return p.EnableInlineExecute && p.SessionNum == 1 && p.CPUSets == ""
}

// Listener is a host and a port; port 0 is one that is free. No address: not served.
type Listener struct {
	Address string `json:"address"`
}

// Limits bound what clients can make the server do at once.
type Limits struct {
	RequestBytes       int     `json:"request_size"`
	ConcurrentRequests int     `json:"concurrent_requests"`
	QueuedRequests     int     `json:"queued_requests"`
	RequestSeconds     float64 `json:"request_timeout"`
	// Connections are of one address; more are refused.
	Connections int `json:"connections"`
}

// Kerberos is who reads HDFS; without it, whoever the tickets of kinit are of.
type Kerberos struct {
	Principal string `json:"principal"`
	Keytab    string `json:"keytab"`
}

// TLS names PEM files. With a client CA, only clients with a certificate of it are let in.
type TLS struct {
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	ClientCA    string `json:"client_ca"`
}

// Addresses is how many the server answers clients at.
func (c *Config) Addresses() int {
	set := 0
	for _, each := range []Listener{c.GRPC, c.REST} {
		if each.Address != "" {
			set++
		}
	}
	return set
}

// Poll is the time between two looks for new versions.
func (c *Config) Poll() time.Duration { return seconds(c.PollSeconds) }

// Delay is how long the server answers still, and is not ready, once it is told to stop.
func (c *Config) Delay() time.Duration { return seconds(c.DelaySeconds) }

// Drain is how long requests under way may take after that.
func (c *Config) Drain() time.Duration { return seconds(c.DrainSeconds) }

// Deadline is how long a request may take, waiting included.
func (l Limits) Deadline() time.Duration { return seconds(l.RequestSeconds) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Read reads and checks the file at path, which may be /dev/fd/N.
func Read(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	config, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the configuration %s: %w", path, err)
	}
	return config, nil
}

// Parse reads a configuration, fills in what it leaves out, and checks it.
func Parse(text []byte) (*Config, error) {
	config := &Config{
		Name:         "default",
		Processor:    Processor{EnableInlineExecute: true, SessionNum: 1},
		Limits:       Limits{RequestBytes: 16 << 20, RequestSeconds: 10, Connections: 1000},
		PollSeconds:  1,
		DrainSeconds: 30,
	}
	if err := strict.Unmarshal(text, config, "version_labels", "split"); err != nil {
		return nil, err
	}
	config.fill()
	if err := config.check(); err != nil {
		return nil, err
	}
	return config, nil
}

// fill puts what 0 stands for in its place.
func (c *Config) fill() {
	for i := range c.Models {
		if versions := &c.Models[i].Versions; versions.policies == nil {
			versions.Latest, versions.policies = 1, []string{"latest"}
		}
		c.Models[i].Canary.fill()
	}
	if c.Limits.ConcurrentRequests == 0 {
		// Of the processors that the container may use, where it is limited.
		c.Limits.ConcurrentRequests = 2 * runtime.GOMAXPROCS(0)
	}
	if c.Limits.QueuedRequests == 0 {
		c.Limits.QueuedRequests = 4 * c.Limits.ConcurrentRequests
	}
}
