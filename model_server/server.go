package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"afo/model_server/internal/concurrency"
	"afo/model_server/internal/config"
	"afo/model_server/internal/connections"
	"afo/model_server/internal/control"
	"afo/model_server/internal/grpcapi"
	"afo/model_server/internal/metrics"
	"afo/model_server/internal/models"
	"afo/model_server/internal/processor"
	"afo/model_server/internal/rollout"

	"google.golang.org/grpc"
)

// server is the models and the two listeners in front of them; one of the listeners may be absent.
type server struct {
	log      *slog.Logger
	access   access
	registry *models.Registry
	copiers  copiers
	// stopCopying ends what copiers do; what they have not copied whole is taken away at the next start.
	stopCopying context.CancelFunc
	health      *grpcapi.Health
	// leaving: it is not ready, and still answers.
	leaving atomic.Bool

	grpc       *grpc.Server
	grpcListen net.Listener
	http       *http.Server
	httpListen net.Listener
	control    *http.Server
	socket     net.Listener
}

// newServer binds the addresses, so that one that is taken is an error before any model is loaded. The socket comes first:
// its lock is that of the state file, too.
func newServer(log *slog.Logger, settings *config.Config, library *processor.Library) (*server, error) {
	access, err := newAccess(log, settings)
	if err != nil {
		return nil, err
	}
	s := &server{log: log, access: access, health: grpcapi.NewHealth()}
	store, err := s.listenControl(settings)
	if err != nil {
		return nil, err
	}
	counted, err := s.holdModels(settings, loader(library), store)
	if err != nil {
		return nil, err
	}
	if err := s.listenClients(settings, counted); err != nil {
		return nil, err
	}
	s.grpc = grpcapi.NewServer(grpcapi.Options{
		Predictor: s.registry, Health: s.health, Metrics: counted, Log: log,
		RequestBytes: settings.Limits.RequestBytes, Deadline: settings.Limits.Deadline(),
		Credentials: access.credentials, Authenticate: access.authenticate, LogAccess: access.logGRPC,
	})
	operators := s.operators(settings.Name)
	problems := s.copiers.problems
	if access.tokens != nil {
		problems = func(string) []models.Problem { return nil } // /readyz needs no token, and places are nobody's business
	}
	handler := newHandler(settings, s.registry, counted, access, operators, s.leaving.Load, problems)
	s.http = newHTTPServer(log, access.guarded(handler), settings.Limits.Deadline())
	s.control = newHTTPServer(log, control.Handler(operators.server, s.registry), settings.Limits.Deadline())
	if access.tls != nil && s.httpListen != nil {
		s.httpListen = tls.NewListener(s.httpListen, access.tls)
	}
	return s, nil
}

// holdModels makes the registry and what copies models for it, and what counts both.
func (s *server) holdModels(settings *config.Config, load models.Loader, store *rollout.Store) (*metrics.Metrics, error) {
	var names []string
	for _, each := range settings.Models {
		names = append(names, each.Name)
	}
	counted := metrics.New(names)
	if s.access.log != nil {
		counted.AccessLog(s.access.log.Dropped, s.access.log.Failed)
	}
	var err error
	if s.copiers, err = newCopiers(s.log, settings, func() *models.Registry { return s.registry }); err != nil {
		return nil, err
	}
	slots := concurrency.New(names, limitsOf(settings))
	counted.Concurrency(slots.Use)
	s.registry = models.New(models.Options{
		Models: settings.Models, Load: load, Log: s.log, Events: counted, Slots: slots, Poll: settings.Poll(),
		LoadBehind: settings.Processor.AskersCompute(),
		Changed:    func() { s.health.Update(s.registry) }, Problems: s.copiers.problems, Remote: s.copiers.remote, Check: s.copiers.check, Store: store,
	})
	return counted, nil
}

func limitsOf(settings *config.Config) concurrency.Limits {
	reserved := map[string]int{}
	for _, each := range settings.Models {
		if each.Reserved > 0 {
			reserved[each.Name] = each.Reserved
		}
	}
	return concurrency.Limits{
		Concurrent: settings.Limits.ConcurrentRequests, Queued: settings.Limits.QueuedRequests, Reserved: reserved,
	}
}

func loader(library *processor.Library) models.Loader {
	return func(directory string) (models.Servable, error) {
		model, err := library.Load(directory)
		if err != nil {
			return nil, err // and no interface around a null model
		}
		return model, nil
	}
}

// listenClients takes no more connections than there are descriptors for.
func (s *server) listenClients(settings *config.Config, counted *metrics.Metrics) error {
	files, err := connections.OpenFiles()
	if err != nil {
		return err
	}
	most, warning, err := connections.Fit(settings.Limits.Connections, settings.Addresses(), files)
	if err != nil {
		return err
	}
	if warning != "" {
		s.log.Warn(warning)
	}
	if s.grpcListen, err = s.listen("grpc", settings.GRPC, most, counted); err != nil {
		return err
	}
	s.httpListen, err = s.listen("rest", settings.REST, most, counted)
	return err
}

// listen is nil where there is no address. The key is that of the address, and the API in metrics.
func (s *server) listen(key string, at config.Listener, most int, counted *metrics.Metrics) (net.Listener, error) {
	if at.Address == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", at.Address)
	if err != nil {
		return nil, fmt.Errorf("%s.address is %s, where nothing can listen: %w", key, at.Address, err)
	}
	bounded := connections.Bound(listener, most, s.log)
	counted.Connections(key, bounded.Open, bounded.Refused)
	return bounded, nil
}

// start answers, and loads models, in the background. What comes out of the channel ends the server.
func (s *server) start() <-chan error {
	failed := make(chan error, 3)
	if s.socket != nil {
		s.log.Info("control on " + s.socket.Addr().String())
		go func() {
			if err := s.control.Serve(s.socket); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
	}
	if s.grpcListen != nil {
		s.log.Info("serving gRPC on " + s.grpcListen.Addr().String())
		go func() { failed <- s.grpc.Serve(s.grpcListen) }()
	}
	if s.httpListen != nil {
		s.log.Info("serving REST on " + s.httpListen.Addr().String())
		go func() {
			if err := s.http.Serve(s.httpListen); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
	}
	var copying context.Context
	copying, s.stopCopying = context.WithCancel(context.Background())
	s.copiers.start(copying)
	s.registry.Start()
	return failed
}

// leave is not ready from now on, so that whoever shares out requests sends no more of them here, and answers still.
func (s *server) leave() {
	s.leaving.Store(true)
	s.health.Leave()
}

// lastWords is for closing models and the access log once requests have ended, where the time for draining is over.
const lastWords = time.Second

// stop takes no more requests, answers what is under way until the context ends, and cuts off the rest.
func (s *server) stop(ctx context.Context) {
	s.leave()
	s.stopCopying()
	s.registry.Drain()
	s.health.Stop()
	var stopping sync.WaitGroup
	stopping.Go(func() { s.stopGRPC(ctx) })
	stopping.Go(func() {
		if err := s.http.Shutdown(ctx); err != nil {
			s.log.Warn("requests by REST are cut off, as drain_timeout is over", "error", err)
			_ = s.http.Close()
		}
	})
	stopping.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if err := s.registry.Close(last); err != nil {
		s.log.Warn("a model is left as it is: it is being loaded, or computes still", "error", err)
	}
	// With it the lock of the state file goes, which nobody writes any more.
	_ = s.control.Close()
	if err := s.access.log.Close(last); err != nil {
		s.log.Warn("the last lines of the access log are not written", "error", err)
	}
}

func (s *server) stopGRPC(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.log.Warn("requests by gRPC are cut off, as drain_timeout is over")
		s.grpc.Stop()
	}
}
