package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// The processor counts bytes and protobuf its lengths in 31 bits.
	mostRequestBytes = math.MaxInt32
	mostAtOnce       = 1 << 16
	mostConnections  = 1 << 20
	mostThreads      = 4096
	mostSessions     = 64
	mostSeconds      = 86400
	mostNameBytes    = 256
)

func (c *Config) check() error {
	if len(c.Models) == 0 {
		return errors.New("models is empty; name at least one model: {\"name\": …, \"base_path\": …}")
	}
	names := map[string]bool{}
	for i, model := range c.Models {
		if err := model.check(); err != nil {
			return fmt.Errorf("models[%d]: %w", i, err)
		}
		if names[model.Name] {
			return fmt.Errorf("models[%d]: the name %q is there twice; each model has its own", i, model.Name)
		}
		names[model.Name] = true
	}
	return errors.Join(checkName("name", c.Name), c.Control.check(), c.checkReserved(), c.Processor.check(), c.checkListeners(),
		c.Limits.check(), c.checkTimes(), c.TLS.check(), c.checkHDFS())
}

// checkReserved leaves something to the models that have nothing reserved.
func (c *Config) checkReserved() error {
	needed := 0
	for _, model := range c.Models {
		needed += model.Reserved
	}
	if slices.ContainsFunc(c.Models, func(model Model) bool { return model.Reserved == 0 }) {
		needed++
	}
	if needed > c.Limits.ConcurrentRequests {
		return fmt.Errorf("the models' reserved_concurrency, and 1 for those without, are %d; limits.concurrent_requests is %d; "+
			"raise it, or reserve less", needed, c.Limits.ConcurrentRequests)
	}
	return nil
}

func (m Model) check() error {
	if err := checkName("name", m.Name); err != nil {
		return err
	}
	if err := m.checkBasePath(); err != nil {
		return err
	}
	if err := errors.Join(m.Versions.check(), checkInt("reserved_concurrency", m.Reserved, 0, mostAtOnce)); err != nil {
		return err
	}
	for label, version := range m.VersionLabels {
		if err := checkName("a label of version_labels", label); err != nil {
			return err
		}
		if version < 1 {
			return fmt.Errorf("version_labels: %q is version %d; allowed: 1 or more", label, version)
		}
	}
	return m.checkRollout()
}

// checkName keeps names to what can stand in a URL's path as a whole: a slash or a colon ends a name there.
func checkName(what, name string) error {
	if name == "" || len(name) > mostNameBytes || strings.ContainsAny(name, "/:") || !printable(name) {
		return fmt.Errorf("%s is %q; allowed: 1 to %d printable characters of ASCII, neither a space, / nor :",
			what, name, mostNameBytes)
	}
	return nil
}

func printable(text string) bool {
	for _, each := range []byte(text) {
		if each <= ' ' || each > '~' {
			return false
		}
	}
	return true
}

func (p Processor) check() error {
	return errors.Join(
		checkPath("processor.library", p.Library), checkPath("processor.tensorflow", p.TensorFlow),
		checkInt("processor.intra_op_parallelism_threads", p.IntraOpThreads, 0, mostThreads),
		checkInt("processor.inter_op_parallelism_threads", p.InterOpThreads, 0, mostThreads),
		checkInt("processor.session_num", p.SessionNum, 1, mostSessions))
}

func (c *Config) checkListeners() error {
	if c.GRPC.Address == "" && c.REST.Address == "" {
		return errors.New("neither grpc.address nor rest.address is set; set one of them: host:port")
	}
	return errors.Join(c.GRPC.check("grpc"), c.REST.check("rest"))
}

func (l Listener) check(key string) error {
	if l.Address == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(l.Address); err != nil {
		return fmt.Errorf("%s.address is %q; allowed: host:port (%w)", key, l.Address, err)
	}
	return nil
}

func (l Limits) check() error {
	return errors.Join(
		checkInt("limits.request_size", l.RequestBytes, 1, mostRequestBytes),
		checkInt("limits.concurrent_requests", l.ConcurrentRequests, 0, mostAtOnce),
		checkInt("limits.queued_requests", l.QueuedRequests, 0, 4*mostAtOnce),
		checkSeconds("limits.request_timeout", l.RequestSeconds, 0.001),
		checkInt("limits.connections", l.Connections, 1, mostConnections))
}

func (c *Config) checkTimes() error {
	return errors.Join(checkSeconds("file_system_poll_wait", c.PollSeconds, 0.01),
		checkSeconds("shutdown_delay", c.DelaySeconds, 0), checkSeconds("drain_timeout", c.DrainSeconds, 0))
}

func (t *TLS) check() error {
	if t != nil && (t.Certificate == "" || t.Key == "") {
		return errors.New("tls needs certificate and key, the paths of PEM files")
	}
	return nil
}

func checkPath(key, path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%s is %q; allowed: an absolute path", key, path)
	}
	return nil
}

func checkInt(key string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("%s is %d; allowed: %d to %d", key, value, least, most)
	}
	return nil
}

func checkSeconds(key string, value, least float64) error {
	if !(value >= least && value <= mostSeconds) {
		return fmt.Errorf("%s is %v seconds; allowed: %v to %d", key, value, least, mostSeconds)
	}
	return nil
}
