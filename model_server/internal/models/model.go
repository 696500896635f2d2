package models

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"afo/model_server/internal/config"
	"afo/model_server/internal/rollout"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// mostEnded is of how many versions that ended the status is kept.
const mostEnded = 16

// model is what is served under one name. One goroutine looks for versions, one judges canaries, and calls steer; any
// number reads.
type model struct {
	config.Model
	log    *slog.Logger
	shared *shared

	served atomic.Pointer[serving]
	// window and mirrored count over all versions.
	window   *rollout.Window
	mirrored mirrorCounts

	// deciding is held, shortly, while it is decided what is served, and how requests are shared out.
	deciding sync.Mutex
	failures map[int64]*failure
	held     rollout.Held
	// unsaved: what is held is not in its file yet.
	unsaved bool
	trial   *trial
	// withheld are versions that only a call takes up, and rejectedAs what rejected ones were.
	withheld   map[int64]withheld
	rejectedAs map[int64]identity
	// lostPin is what was logged of a pinned version that is gone.
	lostPin string
	// onDisk are the versions that the last look found, and those that were loaded since.
	onDisk []int64
	// promoteHelps: a pin or rejections keep versions on disk back.
	promoteHelps atomic.Bool
	// calls counts those that changed what is served: what was picked before holds no more.
	calls int
	// calling is the call that loads a version, nil: none.
	calling *call

	lastSaid      string
	lastFallback  string
	labelsChecked bool
	// noted are the entries of base_path that are passed over, by their path, with the reason.
	noted map[string]string

	mutex sync.Mutex
	// others are the versions of which none is served under their number, and attempts to replace one that is.
	others map[int64]VersionStatus
	ended  []int64
}

func newModel(of config.Model, shared *shared) *model {
	m := &model{
		Model: of, shared: shared, log: shared.log.With("model", of.Name),
		failures: map[int64]*failure{}, others: map[int64]VersionStatus{}, window: rollout.NewWindow(shared.now()),
	}
	m.hold()
	m.served.Store(&serving{})
	return m
}

// find is the version of a number, or the one that answers for 0; nil where it is not there.
func (m *model) find(number int64) *version {
	now := m.served.Load()
	if number == 0 {
		number = now.route.Default
	}
	return now.find(number)
}

// acquire finds the version that a request asks for and makes it last until it is released. Choose picks one where the
// request names none; then it comes with what it was picked from.
func (m *model) acquire(spec Spec, choose func(*rollout.Route) int64) (*version, *serving, error) {
	named, err := m.numberOf(spec)
	if err != nil {
		return nil, nil, err
	}
	for {
		now, number := m.served.Load(), named
		if named == 0 {
			number = choose(&now.route)
		}
		found := now.find(number)
		if found == nil {
			return nil, nil, m.absent(named, spec.Label)
		}
		// Else it was retired after it was found, and the list is another one by now.
		if !found.acquire() {
			continue
		}
		if named != 0 {
			now = nil
		}
		return found, now, nil
	}
}

func (m *model) numberOf(spec Spec) (int64, error) {
	if spec.Label == "" {
		if spec.Version < 0 {
			return 0, status.Errorf(codes.InvalidArgument, "version %d of model %q: versions are 1 or more", spec.Version, m.Name)
		}
		return spec.Version, nil
	}
	if spec.Version != 0 {
		return 0, status.Error(codes.InvalidArgument, "the request names a version and a label; name one of them")
	}
	number, ok := m.VersionLabels[spec.Label]
	if !ok {
		labels := slices.Sorted(maps.Keys(m.VersionLabels))
		return 0, status.Errorf(codes.NotFound, "model %q has no label %.80q; %s", m.Name, spec.Label, listed("labels", labels))
	}
	return number, nil
}

// asked is the version that a request is for which is not answered, for metrics and logs; 0: there is no such version.
// What clients make up is none, so that they cannot make series of metrics.
func (m *model) asked(spec Spec) int64 {
	number, err := m.numberOf(spec)
	if err != nil {
		return 0
	}
	if served := m.find(number); served != nil {
		return served.number
	}
	if len(m.statuses(number)) == 0 {
		return 0
	}
	return number
}

// absent says why there is no such version. It goes to clients: paths are in the log and in the status.
func (m *model) absent(number int64, label string) error {
	if number == 0 && len(m.statuses(0)) == 0 {
		return status.Errorf(codes.Unavailable, "no version of %s is available yet, nor known of; the server's log says why", m.Name)
	}
	if number == 0 {
		return status.Errorf(codes.Unavailable, "no version of %s is available yet; its status (GetModelStatus) says why", m.Name)
	}
	numbers := m.served.Load().numbers()
	of := ""
	if label != "" {
		of = fmt.Sprintf(" (label %q)", label)
	}
	return status.Errorf(codes.NotFound, "version %d%s of model %q is not available; %s", number, of, m.Name, listed("available", textsOf(numbers)))
}

func textsOf(numbers []int64) []string {
	var texts []string
	for _, each := range numbers {
		texts = append(texts, fmt.Sprint(each))
	}
	return texts
}

func listed(what string, names []string) string {
	if len(names) == 0 {
		return what + ": none"
	}
	return what + ": " + strings.Join(names, ", ")
}

// states tells the states of all versions that are known, in a sentence.
func (m *model) states() string {
	var texts []string
	for _, each := range m.statuses(0) {
		texts = append(texts, fmt.Sprintf("%d (%s)", each.Version, each.State))
	}
	return listed("known", texts)
}

// statuses of one version, or of all for 0, the newest first.
func (m *model) statuses(number int64) []VersionStatus {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	known := maps.Clone(m.others)
	for _, each := range m.served.Load().versions {
		// Where the SavedModel in its place could not be loaded, it says so.
		known[each.number] = VersionStatus{Version: each.number, State: StateAvailable, Message: known[each.number].Message}
	}
	var all []VersionStatus
	for _, each := range slices.Backward(slices.Sorted(maps.Keys(known))) {
		if number == 0 || number == each {
			all = append(all, known[each])
		}
	}
	return all
}

// set notes the state of a version that is not served.
func (m *model) set(number int64, state State, err error) {
	m.mutex.Lock()
	to := VersionStatus{Version: number, State: state}
	if err != nil {
		to.Code, to.Message = status.Code(err), status.Convert(err).Message()
	}
	m.others[number] = to
	if state == StateEnd {
		m.end(number)
	}
	m.mutex.Unlock()
	if m.find(number) == nil {
		m.shared.events.State(m.Name, number, state)
	}
	m.shared.changed()
}

// end keeps the list of ended versions short.
func (m *model) end(number int64) {
	m.ended = append(slices.DeleteFunc(m.ended, func(each int64) bool { return each == number }), number)
	if len(m.ended) <= mostEnded {
		return
	}
	if oldest := m.ended[0]; m.others[oldest].State == StateEnd {
		delete(m.others, oldest)
		// A version that is served may have failed to be loaded anew.
		if m.find(oldest) == nil {
			m.shared.events.Gone(m.Name, oldest)
		}
	}
	m.ended = m.ended[1:]
}

// clear forgets what was noted of a version, as it is served now.
func (m *model) clear(number int64) {
	m.mutex.Lock()
	delete(m.others, number)
	m.ended = slices.DeleteFunc(m.ended, func(each int64) bool { return each == number })
	m.mutex.Unlock()
	m.shared.events.State(m.Name, number, StateAvailable)
	m.shared.changed()
}
