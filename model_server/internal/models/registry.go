package models

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"afo/model_server/internal/concurrency"
	"afo/model_server/internal/config"
	"afo/model_server/internal/rollout"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Options say what is served, and by what.
type Options struct {
	Models []config.Model
	Load   Loader
	Slots  *concurrency.Pool
	Poll   time.Duration
	// LoadBehind: the threads that a load starts are not those that answer, so that they may come second.
	LoadBehind bool
	Log        *slog.Logger
	Events     Events
	// Changed is called, by any goroutine, when a version changes its state; it has to be quick.
	Changed func()
	// Problems are what keeps versions from coming to a model's base_path; nil: they come from nowhere else.
	Problems func(model string) []Problem
	// Remote are the versions at the place that a model is copied from; nil: it is copied from nowhere.
	Remote func(model string) []int64
	// Check refuses a version that came to where a model is copied to from elsewhere; nil: nothing is copied.
	Check func(model string, version int64) error
	// Now is a clock; nil: the time.
	Now func() time.Time
	// Store keeps what calls and canaries decide; nil: in memory.
	Store *rollout.Store
}

// shared is what all models have in common.
type shared struct {
	load     Loader
	loading  chan struct{}
	draining sync.WaitGroup
	poll     time.Duration
	log      *slog.Logger
	events   Events
	changed  func()
	problems func(string) []Problem
	remote   func(string) []int64
	check    func(string, int64) error
	now      func() time.Time
	store    *rollout.Store
	patience patience
	priority priority
}

// Registry is the Predictor of the models of a configuration.
type Registry struct {
	models map[string]*model
	shared *shared
	slots  *concurrency.Pool
	mirror *mirroring
	calls  calls
	// closing is set when the server is told to stop: it is not ready, and still answers.
	closing atomic.Bool
	cancel  context.CancelFunc
	running sync.WaitGroup
}

var _ Predictor = (*Registry)(nil)

// New makes a registry, which has no version before Start.
func New(options Options) *Registry {
	now := options.Now
	if now == nil {
		now = time.Now
	}
	store := options.Store
	if store == nil {
		store, _ = rollout.OpenStore("") // in memory: it has no errors
	}
	shared := &shared{
		load: options.Load, loading: make(chan struct{}, 1), poll: options.Poll, log: options.Log,
		events: options.Events, changed: options.Changed, problems: options.Problems, remote: options.Remote, check: options.Check, now: now, store: store,
		patience: usualPatience,
		priority: priority{behind: options.LoadBehind},
	}
	r := &Registry{models: map[string]*model{}, shared: shared, slots: options.Slots}
	r.mirror = newMirroring(r.slots)
	for _, each := range options.Models {
		r.models[each.Name] = newModel(each, shared)
	}
	return r
}

// Start begins to look for versions, in the background.
func (r *Registry) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.running.Go(func() { r.slots.Run(ctx) })
	for _, each := range r.models {
		r.running.Go(func() { each.run(ctx) })
	}
	r.running.Go(func() { r.judge(ctx) })
	r.running.Go(func() { r.mirror.run(ctx) })
}

// Drain makes the registry not ready. Requests are answered still.
func (r *Registry) Drain() {
	r.closing.Store(true)
	r.shared.changed()
}

// Close stops looking, and closes all versions once their requests have ended. It gives up when the context ends: a
// load, and a request that is being computed, cannot be interrupted.
func (r *Registry) Close(ctx context.Context) error {
	r.Drain()
	r.calls.end()
	r.cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.running.Wait()
		r.calls.running.Wait()
		for _, each := range r.models {
			each.drainAll()
		}
		r.shared.draining.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Predict implements Predictor.
func (r *Registry) Predict(ctx context.Context, spec Spec, request []byte) ([]byte, int64, error) {
	model, err := r.find(spec.Name)
	if err != nil {
		return nil, 0, err
	}
	response, version, among, err := r.compute(ctx, model, spec, request)
	if late := ctx.Err(); err == nil && late != nil {
		err = status.FromContextError(late).Err()
	}
	if err != nil {
		return nil, version, err
	}
	r.mirror.offer(model, among, version, request, response)
	return response, version, nil
}

// compute answers once it is the request's turn. Among is what the version was picked from, nil for one that was named.
func (r *Registry) compute(ctx context.Context, model *model, spec Spec, request []byte) (response []byte, number int64, among *serving, err error) {
	slot, err := r.slots.Enter(ctx, model.Name)
	if err != nil {
		return nil, model.asked(spec), nil, err
	}
	defer slot.Leave()
	// Only now: a request that waits for its turn keeps no version from being unloaded.
	version, among, err := model.acquire(spec, func(route *rollout.Route) int64 {
		if len(route.Shares) == 0 {
			return route.Default
		}
		return route.Choose(headerOf(ctx, route.HashHeader), chance())
	})
	if err != nil {
		return nil, model.asked(spec), nil, err
	}
	defer version.release()
	began := time.Now()
	response, err = version.model.Process(request)
	model.observe(version, among, response, err, time.Since(began))
	return response, version.number, among, err
}

// Signatures implements Predictor.
func (r *Registry) Signatures(spec Spec) (map[string]Signature, int64, error) {
	model, err := r.find(spec.Name)
	if err != nil {
		return nil, 0, err
	}
	version, _, err := model.acquire(spec, func(route *rollout.Route) int64 { return route.Default })
	if err != nil {
		return nil, model.asked(spec), err
	}
	defer version.release()
	return version.Signatures, version.number, nil
}

// Status implements Predictor.
func (r *Registry) Status(name string, version int64) ([]VersionStatus, error) {
	model, err := r.find(name)
	if err != nil {
		return nil, err
	}
	statuses := model.statuses(version)
	if len(statuses) == 0 && version != 0 {
		return nil, status.Errorf(codes.NotFound, "model %q has no version %d; %s", name, version, model.states())
	}
	return statuses, nil
}

// Names implements Predictor.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.models)) }

// Ready implements Predictor.
func (r *Registry) Ready() bool {
	if r.closing.Load() {
		return false
	}
	for _, each := range r.models {
		if each.find(0) == nil {
			return false
		}
	}
	return true
}

func (r *Registry) find(name string) (*model, error) {
	if found, ok := r.models[name]; ok {
		return found, nil
	}
	if name == "" {
		return nil, status.Errorf(codes.InvalidArgument, "the request names no model (model_spec.name); %s", listed("models", r.Names()))
	}
	return nil, status.Errorf(codes.NotFound, "there is no model %.80q; %s", name, listed("models", r.Names()))
}
