package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"afo/model_server/internal/config"
	pb "afo/model_server/internal/tfserving"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// TestMain is the server itself where a test started this binary for one.
func TestMain(m *testing.M) {
	if os.Getenv("AFO_TEST_SERVER") != "" {
		main()
	}
	directory, err := os.MkdirTemp("", "afo-model-server-")
	if err != nil {
		panic(err)
	}
	libraries = directory
	code := m.Run()
	_ = os.RemoveAll(directory)
	os.Exit(code)
}

// libraries is where the fake processor is, and empty libraries in TensorFlow's place.
var libraries string

var compiled = sync.OnceValue(func() error {
	empty := filepath.Join(libraries, "empty.c")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		return err
	}
	for name, source := range map[string]string{
		"libafo_processor.so": "internal/processor/testdata/fake.c", "libtensorflow_framework.so.2": empty, "libtensorflow_cc.so.2": empty,
	} {
		if output, err := exec.Command("gcc", "-shared", "-fPIC", "-o", filepath.Join(libraries, name), source).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
	}
	return nil
})

// started is a server with the fake processor, in a process of its own.
type started struct {
	t         *testing.T
	directory string
	process   *exec.Cmd
	lines     *bufio.Scanner
	said      strings.Builder
}

func begin(t *testing.T, change func(map[string]any)) *started {
	t.Helper()
	return beginBy(t, change, os.Args[0])
}

// beginBy starts the server with a command that is given its arguments.
func beginBy(t *testing.T, change func(map[string]any), command ...string) *started {
	t.Helper()
	s := &started{t: t, directory: t.TempDir()}
	s.must(compiled())
	settings := map[string]any{
		"models":    []any{map[string]any{"name": "ctr", "base_path": filepath.Join(s.directory, "ctr")}},
		"processor": map[string]any{"library": filepath.Join(libraries, "libafo_processor.so"), "tensorflow": libraries},
		"grpc":      map[string]any{"address": "127.0.0.1:0"}, "rest": map[string]any{"address": "127.0.0.1:0"},
		"file_system_poll_wait": 0.01,
	}
	if change != nil {
		change(settings)
	}
	text, err := json.Marshal(settings)
	s.must(err)
	s.process = exec.Command(command[0], append(command[1:], "--config", s.write("config.json", string(text)))...)
	s.process.Env = append(os.Environ(), "AFO_TEST_SERVER=1")
	output, err := s.process.StderrPipe()
	s.must(err)
	s.must(s.process.Start())
	t.Cleanup(func() { _ = s.process.Process.Kill() })
	s.lines = bufio.NewScanner(output)
	return s
}

func (s *started) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *started) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.directory, name)
	s.must(os.MkdirAll(filepath.Dir(path), 0o700))
	s.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// says waits for a line of the log and returns what the pattern's group matches in it.
func (s *started) says(pattern string) string {
	s.t.Helper()
	wanted := regexp.MustCompile(pattern)
	for s.lines.Scan() {
		s.said.WriteString(s.lines.Text() + "\n")
		if found := wanted.FindStringSubmatch(s.lines.Text()); found != nil {
			return found[len(found)-1]
		}
	}
	s.t.Fatalf("it ended without saying %s:\n%s", pattern, s.said.String())
	return ""
}

// ends waits for the end of the process, and returns its status.
func (s *started) ends() int {
	for s.lines.Scan() {
		s.said.WriteString(s.lines.Text() + "\n")
	}
	var exited *exec.ExitError
	if err := s.process.Wait(); errors.As(err, &exited) {
		return exited.ExitCode()
	}
	return 0
}

func (s *started) connected(address string) *grpc.ClientConn {
	s.t.Helper()
	to, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	s.must(err)
	s.t.Cleanup(func() { _ = to.Close() })
	return to
}

func (s *started) got(url string) (int, string) {
	s.t.Helper()
	response, err := http.Get(url)
	s.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	s.must(err)
	return response.StatusCode, string(body)
}

const (
	grpcLine = `serving gRPC on (127\.0\.0\.1:\d+)`
	restLine = `serving REST on (127\.0\.0\.1:\d+)`
)

func TestAServerStartsServesAndEnds(t *testing.T) {
	s := begin(t, func(settings map[string]any) { settings["access_log"] = filepath.Join(t.TempDir(), "access.log") })
	to := s.connected(s.says(grpcLine))
	url := "http://" + s.says(restLine)
	if code, body := s.got(url + "/readyz"); code != 503 || !strings.Contains(body, "no version is available of ctr") {
		t.Error(code, body)
	}
	if code, body := s.got(url + "/healthz"); code != 200 || body != "ok\n" {
		t.Error(code, body)
	}
	s.write("ctr/3/assets.extra/x", "")
	s.write("ctr/3/saved_model.pb", "x")
	s.says("serving a version.*version=3 step=0 seconds=")
	if code, body := s.got(url + "/readyz"); code != 200 || body != "ready\n" {
		t.Error(code, body)
	}
	health, err := healthpb.NewHealthClient(to).Check(context.Background(), &healthpb.HealthCheckRequest{Service: "ctr"})
	if err != nil || health.Status != healthpb.HealthCheckResponse_SERVING {
		t.Error(health, err)
	}
	for _, path := range []string{"/metrics", "/monitoring/prometheus/metrics"} {
		if code, body := s.got(url + path); code != 200 || !strings.Contains(body, `afo_serving_model_version{model="ctr",state="AVAILABLE",version="3"} 1`) {
			t.Error(code, body)
		}
	}
	if code, body := s.got(url + "/metrics"); code != 200 || !strings.Contains(body, `afo_serving_access_log_lines_lost_total{reason="dropped"} 0`) {
		t.Error(code, body)
	}
	s.must(s.process.Process.Signal(syscall.SIGTERM))
	if code := s.ends(); code != 0 {
		t.Errorf("%d: %s", code, s.said.String())
	}
}

func TestEachAddressTakesSoManyConnectionsAndNoMore(t *testing.T) {
	s := begin(t, func(settings map[string]any) { settings["limits"] = map[string]any{"connections": 2} })
	address, url := s.says(grpcLine), "http://"+s.says(restLine)
	read := func() error {
		opened, err := net.Dial("tcp", address)
		s.must(err)
		t.Cleanup(func() { _ = opened.Close() })
		_, err = opened.Read(make([]byte, 1)) // the server's settings of HTTP/2
		return err
	}
	s.must(errors.Join(read(), read()))
	if read() == nil {
		t.Error("a third connection is served")
	}
	code, body := s.got(url + "/metrics")
	for _, line := range []string{
		`afo_serving_connections{api="grpc"} 2`, `afo_serving_connections_refused_total{api="grpc"} 1`, `afo_serving_connections{api="rest"} 1`,
	} {
		if code != 200 || !strings.Contains(body, line) {
			t.Error(line, code, body)
		}
	}
}

// beginWithin starts a server that may open so many files.
func beginWithin(t *testing.T, files int) *started {
	return beginBy(t, nil, "sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, files), os.Args[0])
}

func TestAFloodOfConnectionsLeavesFilesToTheRest(t *testing.T) {
	s := beginWithin(t, 320)
	if most := s.says("limits.connections is 1000, and `ulimit -n` is 320.* takes (\\d+) connections"); most != "32" {
		t.Error(most)
	}
	address, url := s.says(grpcLine), "http://"+s.says(restLine)
	for range 320 {
		opened, err := net.Dial("tcp", address)
		s.must(err)
		t.Cleanup(func() { _ = opened.Close() })
	}
	if code, body := s.got(url + "/healthz"); code != 200 {
		t.Error(code, body)
	}
	s.write("ctr/1/saved_model.pb", "x")
	s.says("serving a version")
	s.until(func() bool {
		_, body := s.got(url + "/metrics")
		return strings.Contains(body, `afo_serving_connections{api="grpc"} 32`+"\n")
	})
	if s = beginWithin(t, 280); s.ends() != 1 || !strings.Contains(s.said.String(), "`ulimit -n` is 280, of which 256 are") {
		t.Error(s.said.String())
	}
}

func TestARequestUnderWayIsAnsweredBeforeTheEnd(t *testing.T) {
	s, answered := busy(t, 3600)
	s.must(s.process.Process.Signal(syscall.SIGTERM))
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if code := s.ends(); code != 0 {
		t.Errorf("%d: %s", code, s.said.String())
	}
}

func TestAServerAnswersForItsShutdownDelay(t *testing.T) {
	s := begin(t, func(settings map[string]any) { settings["shutdown_delay"] = 3600 })
	to, url := s.connected(s.says(grpcLine)), "http://"+s.says(restLine)
	s.write("ctr/1/saved_model.pb", "x")
	s.says("serving a version")
	s.must(s.process.Process.Signal(syscall.SIGTERM))
	s.until(func() bool {
		code, body := s.got(url + "/readyz")
		return code == 503 && body == "not ready: it is stopping\n"
	})
	client := healthpb.NewHealthClient(to)
	s.until(func() bool {
		health, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{})
		s.must(err)
		return health.Status == healthpb.HealthCheckResponse_NOT_SERVING
	})
	if code, body := s.got(url + "/v1/models/ctr"); code != 200 || !strings.Contains(body, "AVAILABLE") {
		t.Error(code, body)
	}
	if err := sleep(to); err != nil {
		t.Error(err)
	}
	s.must(s.process.Process.Signal(syscall.SIGTERM))
	if code := s.ends(); code != 1 {
		t.Errorf("%d: %s", code, s.said.String())
	}
}

// sleep asks for an answer that takes a while. The fake gives the request back, which is read as a response.
func sleep(to *grpc.ClientConn) error {
	request := &pb.PredictRequest{ModelSpec: &pb.ModelSpec{Name: "ctr"}, OutputFilter: []string{"sleep"}}
	_, err := pb.NewPredictionServiceClient(to).Predict(context.Background(), request)
	// It is no response, which the client finds out when the answer is there.
	if status.Code(err) == codes.Internal && strings.Contains(err.Error(), "unmarshal") {
		return nil
	}
	return err
}

func (s *started) until(is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal("it did not come to that")
		}
	}
}

// busy is a server that computes an answer for a while yet.
func busy(t *testing.T, drainSeconds float64) (s *started, answered chan error) {
	t.Helper()
	s = begin(t, func(settings map[string]any) { settings["drain_timeout"] = drainSeconds })
	to, url := s.connected(s.says(grpcLine)), "http://"+s.says(restLine)
	s.write("ctr/1/saved_model.pb", "x")
	s.says("serving a version")
	answered = make(chan error, 1)
	go func() { answered <- sleep(to) }()
	s.until(func() bool {
		_, body := s.got(url + "/metrics")
		return strings.Contains(body, `afo_serving_requests_in_flight{api="grpc"} 1`)
	})
	return s, answered
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	s, _ := busy(t, 3600)
	s.must(s.process.Process.Signal(syscall.SIGINT))
	s.says("stopping once the requests")
	s.must(s.process.Process.Signal(syscall.SIGTERM))
	if code := s.ends(); code != 1 || !strings.Contains(s.said.String(), "stopping at once") {
		t.Errorf("%d: %s", code, s.said.String())
	}
}

func TestRequestsAreCutOffWhenTheTimeForThemIsOver(t *testing.T) {
	s, answered := busy(t, 0.01)
	s.must(s.process.Process.Signal(syscall.SIGTERM))
	if code := s.ends(); code != 0 || !strings.Contains(s.said.String(), "requests by gRPC are cut off") {
		t.Errorf("%d: %s", code, s.said.String())
	}
	if err := <-answered; status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}

func TestWhatDoesNotStartSaysWhy(t *testing.T) {
	for says, change := range map[string]func(map[string]any){
		"unknown field":               func(settings map[string]any) { settings["model"] = 1 },
		"processor.tensorflow is /no": func(settings map[string]any) { settings["processor"].(map[string]any)["tensorflow"] = "/no" },
		"where nothing can listen":    func(settings map[string]any) { settings["grpc"] = map[string]any{"address": "192.0.2.1:1"} },
		"file_system_poll_wait is 0":  func(settings map[string]any) { settings["file_system_poll_wait"] = 0 },
		`base_path is \"m\"`: func(settings map[string]any) {
			settings["models"] = []any{map[string]any{"name": "m", "base_path": "m"}}
		},
	} {
		s := begin(t, change)
		if code := s.ends(); code != 1 || !strings.Contains(s.said.String(), says) {
			t.Errorf("%s: %d: %s", says, code, s.said.String())
		}
	}
	if err := run(nil, nil); err == nil || !strings.Contains(err.Error(), "--config is missing") {
		t.Error(err)
	}
	if err := run(nil, []string{"--config", "/nowhere/x"}); err == nil || !strings.Contains(err.Error(), "/nowhere/x") {
		t.Error(err)
	}
}

func TestProcessorTimeIsNotOfRequestsThatOtherThreadsCompute(t *testing.T) {
	for _, each := range []struct {
		of     config.Processor
		askers bool
	}{
		{config.Processor{EnableInlineExecute: true, SessionNum: 1}, true},
		{config.Processor{EnableInlineExecute: true, SessionNum: 2}, false},
		{config.Processor{EnableInlineExecute: true, SessionNum: 1, CPUSets: "0-3"}, false},
		{config.Processor{SessionNum: 1}, false},
	} {
		if optionsOf(each.of).AskersCompute != each.askers {
			t.Error(each)
		}
	}
}

func TestNotReadySaysWhyNothingComesFromHDFSUnlessStrangersMayAsk(t *testing.T) {
	const path = "/models/ctr"
	for _, tokens := range []bool{false, true} {
		s := begin(t, func(settings map[string]any) {
			// The port of nothing: no answer is to be waited for.
			settings["models"] = []any{map[string]any{"name": "ctr", "base_path": "hdfs://127.0.0.1:1" + path}}
			settings["cache_directory"] = filepath.Join(t.TempDir(), "cache")
			if tokens {
				file := filepath.Join(t.TempDir(), "tokens")
				if err := os.WriteFile(file, []byte("bob 0123456789abcdef-bob\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				settings["tokens_file"] = file
			}
		})
		url := "http://" + s.says(restLine) + "/readyz"
		s.says("an entry of base_path is passed over")
		status, text := s.got(url)
		if status != 503 || !strings.Contains(text, "no version is available of ctr") || strings.Contains(text, path+": ") == tokens {
			t.Error(tokens, status, text)
		}
	}
}

// controlled has a socket, tokens, and the versions 1 and 2.
func controlled(t *testing.T, directory string) *started {
	s := begin(t, func(settings map[string]any) {
		tokens := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(tokens, []byte("ann 0123456789abcdef-ann admin\nbob 0123456789abcdef-bob\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		settings["name"], settings["tokens_file"] = "ctr", tokens
		settings["control"] = map[string]any{"socket": filepath.Join(directory, "ctr.sock"), "state_file": filepath.Join(directory, "ctr.json")}
		settings["models"] = []any{map[string]any{"name": "ctr", "base_path": filepath.Join(directory, "ctr")}}
	})
	return s
}

// calls makes a request with a token, "": none.
func calls(t *testing.T, client *http.Client, method, url, token, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer 0123456789abcdef-"+token)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestAnOperatorRollsBackAndTheServerKeepsToIt(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "servers")
	for _, number := range []string{"1", "2"} {
		version := filepath.Join(directory, "ctr", number)
		if err := errors.Join(os.MkdirAll(version, 0o700), os.WriteFile(filepath.Join(version, "saved_model.pb"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s := controlled(t, directory)
	url := "http://" + s.says(restLine) + "/v1/models"
	s.says("serving a version.*version=2 ")
	for _, each := range []struct {
		method, path, token string
		status              int
		says                string
	}{
		{"GET", "", "", 401, "no token"},
		{"GET", "", "bob", 200, `"serving_version":2`},
		{"POST", "/ctr:rollback", "", 401, "no token"},
		{"POST", "/ctr:rollback", "bob", 403, "needs a third word"},
		{"POST", "/ctr:rollback", "ann", 200, `"serving_version":1,"pinned":true`},
		{"POST", "/ctr:predict", "bob", 400, ""},
	} {
		if status, text := calls(t, http.DefaultClient, each.method, url+each.path, each.token, ""); status != each.status || !strings.Contains(text, each.says) {
			t.Errorf("%s %s: %d %s", each.method, each.path, status, text)
		}
	}
	if _, text := calls(t, http.DefaultClient, "GET", url, "bob", ""); !strings.Contains(text, "rolled back to version 1") || strings.Contains(text, "ann") {
		t.Error("who called is for the logs:", text)
	}
	if second := controlled(t, directory); second.ends() != 1 || !strings.Contains(second.said.String(), "is running already, as process") {
		t.Error(second.said.String())
	}
	s.must(s.process.Process.Kill()) // its socket stays, and is replaced
	s.ends()
	s = controlled(t, directory)
	s.says("a version is pinned; newer ones wait for a promote")
	s.says("serving a version.*version=1 ")
	socket := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(directory, "ctr.sock"))
	}}}
	if status, text := calls(t, socket, "POST", "http://ctr/v1/models/ctr:promote", "", ""); status != 200 || !strings.Contains(text, `"serving_version":2,"pinned":false`) {
		t.Error(status, text)
	}
	s.must(s.process.Process.Signal(syscall.SIGTERM))
	if code := s.ends(); code != 0 {
		t.Errorf("%d: %s", code, s.said.String())
	}
	s.must(os.WriteFile(filepath.Join(directory, "ctr.json"), []byte("{"), 0o600))
	if s = controlled(t, directory); s.ends() != 1 || !strings.Contains(s.said.String(), "is damaged: unexpected EOF; mend it, or remove it") {
		t.Error(s.said.String())
	}
}

func TestWithoutTokensTheNetworkChangesNoVersions(t *testing.T) {
	s := begin(t, nil)
	url := "http://" + s.says(restLine) + "/v1/models"
	if status, text := calls(t, http.DefaultClient, "POST", url+"/ctr:promote", "", ""); status != 403 || !strings.Contains(text, "set tokens_file, with a line `NAME TOKEN admin`") {
		t.Error(status, text)
	}
	if status, text := calls(t, http.DefaultClient, "GET", url, "", ""); status != 200 || !strings.Contains(text, `"name":"default"`) {
		t.Error(status, text)
	}
}
