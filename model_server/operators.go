package main

import (
	"net"
	"net/http"
	"os"
	"time"

	"afo/model_server/internal/config"
	"afo/model_server/internal/control"
	"afo/model_server/internal/models"
	"afo/model_server/internal/rollout"
)

// operators are those who see the state of the server and change which versions answer.
type operators struct {
	server   control.Server
	versions *models.Registry
}

// listenControl binds the socket and reads what was kept, where they are configured.
func (s *server) listenControl(settings *config.Config) (*rollout.Store, error) {
	if settings.Control == nil {
		return rollout.OpenStore("")
	}
	socket, err := control.Listen(settings.Control.Socket, settings.Name)
	if err != nil {
		return nil, err
	}
	s.socket = socket
	return rollout.OpenStore(settings.Control.StateFile)
}

// operators is of a server that listens.
func (s *server) operators(name string) operators {
	return operators{control.Server{Name: name, PID: os.Getpid(), StartedAt: time.Now().Unix(), GRPC: addressOf(s.grpcListen), REST: addressOf(s.httpListen)},
		s.registry}
}

func addressOf(listener net.Listener) *string {
	if listener == nil {
		return nil
	}
	text := listener.Addr().String()
	return &text
}

// around takes calls of operators out of what TensorFlow Serving's API answers.
func (o operators) around(next http.Handler, access access) http.Handler {
	steer := access.tokens.Admin(control.Steer(o.versions))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if control.IsCall(r) {
			steer.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
