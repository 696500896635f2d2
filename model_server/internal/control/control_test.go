package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"afo/model_server/internal/models"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fake is a model ctr, and the calls that were made of it.
type fake struct{ calls []string }

func (f *fake) State() []models.ModelState {
	serving := int64(3)
	return []models.ModelState{{Name: "ctr", ServingVersion: &serving}}
}

func (f *fake) Rollback(model string, version int64, by string) ([]models.PassedOver, error) {
	f.calls = append(f.calls, fmt.Sprint("rollback ", model, version, " ", by))
	if version == 9 {
		return nil, status.Error(codes.FailedPrecondition, "version 9 cannot be loaded")
	}
	return nil, nil
}

func (f *fake) Promote(model string, version int64, full bool, by string) ([]models.PassedOver, error) {
	f.calls = append(f.calls, fmt.Sprint("promote ", model, version, full, " ", by))
	return []models.PassedOver{{Version: 4, Reason: "it is broken"}}, nil
}

func TestCallsAndTheState(t *testing.T) {
	versions := &fake{}
	address := "127.0.0.1:8500"
	handler := Handler(Server{Name: "default", PID: 7, StartedAt: 1000, GRPC: &address}, versions)
	for _, each := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/v1/models", "", 200, `{"name":"default","pid":7,"started_at":1000,"grpc":"127.0.0.1:8500","rest":null,"models":[{"name":"ctr"`},
		{"POST", "/v1/models/ctr:rollback", "", 200, `"serving_version":3`},
		{"POST", "/v1/models/ctr:rollback", `{"version": 2}`, 200, `"passed_over":[]}`},
		{"POST", "/v1/models/ctr:promote", `{}`, 200, `"passed_over":[{"version":4,"reason":"it is broken"}]}`},
		{"POST", "/v1/models/ctr:promote", `{"full": true}`, 200, `"name":"ctr"`},
		{"POST", "/v1/models/ctr:promote", `{"full": null}`, 400, "full is null; leave it out"},
		{"POST", "/v1/models/ctr:promote", `{"full": 1}`, 400, "cannot unmarshal number"},
		{"POST", "/v1/models/ctr:rollback", `{"full": true}`, 400, "it is for promote alone"},
		{"POST", "/v1/models/ctr:rollback", `{"version": 9}`, 409, "version 9 cannot be loaded"},
		{"POST", "/v1/models/ctr:rollback", `{"version": 0}`, 400, "version is 0; allowed: 1 or more"},
		{"POST", "/v1/models/ctr:rollback", `{"versions": 2}`, 400, "unknown field"},
		{"POST", "/v1/models/ctr:rollback", `{"Version": 2}`, 400, "keys are in small letters"},
		{"POST", "/v1/models/ctr:rollback", `{"version": 2, "version": 3}`, 400, "there twice"},
		{"POST", "/v1/models/ctr:rollback", `{"version": null}`, 400, "version is null; leave it out"},
		{"POST", "/v1/models/ctr:rollback", `{"version": "2"}`, 400, "cannot unmarshal string"},
		{"POST", "/v1/models/ctr:rollback", `null`, 400, "it is null"},
		{"POST", "/v1/models/ctr:rollback?version=2", "", 400, `the query \"version=2\", which is not read`},
		{"POST", "/v1/models/ctr:rollback", `{} {}`, 400, "something follows"},
		{"POST", "/v1/models/ctr:rollback", `"` + strings.Repeat("x", mostBody), 400, "too large"},
		{"POST", "/v1/models/ctr:forget", "", 404, "NAME:promote"},
		{"POST", "/v1/models/:promote", "", 404, "NAME:promote"},
		{"GET", "/v1/models/ctr:promote", "", 405, ""},
		{"GET", "/metrics", "", 404, ""},
	} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(each.method, each.path, strings.NewReader(each.body)))
		if answer.Code != each.status || !strings.Contains(answer.Body.String(), each.says) {
			t.Errorf("%s %s %.40s: %d %s", each.method, each.path, each.body, answer.Code, answer.Body)
		}
		if each.says != "" && !json.Valid(answer.Body.Bytes()) {
			t.Error(answer.Body)
		}
	}
	by := " the server's user"
	if got := fmt.Sprint(versions.calls); got != fmt.Sprint([]string{"rollback ctr0" + by, "rollback ctr2" + by, "promote ctr0 false" + by, "promote ctr0 true" + by, "rollback ctr9" + by}) {
		t.Error(got)
	}
}

func TestASocketIsItsOwnersAndOfOneServer(t *testing.T) {
	// Longer than the path of a socket may be.
	for _, directory := range []string{filepath.Join(t.TempDir(), "servers"), filepath.Join(t.TempDir(), strings.Repeat("d", 120))} {
		path := filepath.Join(directory, "ctr.sock")
		first, err := Listen(path, "ctr")
		if err != nil {
			t.Fatal(err)
		}
		for of, mode := range map[string]os.FileMode{directory: 0o700, path: 0o600, path + ".lock": 0o600} {
			if info, err := os.Stat(of); err != nil || info.Mode().Perm() != mode {
				t.Error(of, info, err)
			}
		}
		if _, err := Listen(path, "ctr"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf(
			`a server of the name "ctr" is running already, as process %d; give this one another name`, os.Getpid())) {
			t.Error(err)
		}
		first.Close()
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Error(err)
		}
		// What a server that was killed leaves.
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		second, err := Listen(path, "ctr")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = http.Serve(second, Handler(Server{}, &fake{})) }()
		if body := get(t, directory); !strings.Contains(body, `"models"`) {
			t.Error(body)
		}
		second.Close()
	}
}

// get asks a socket by a short path, whatever its own is.
func get(t *testing.T, directory string) string {
	t.Helper()
	short, err := os.Open(directory)
	if err != nil {
		t.Fatal(err)
	}
	defer short.Close()
	to, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/ctr.sock", short.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := io.WriteString(to, "GET /v1/models HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(to)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestADirectoryThatOthersMayEnterIsRefused(t *testing.T) {
	directory := t.TempDir()
	if err := os.Chmod(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(filepath.Join(directory, "ctr.sock"), "ctr"); err == nil || !strings.Contains(err.Error(), "chmod 700 "+directory) {
		t.Error(err)
	}
	if _, err := Listen("/proc/none/ctr.sock", "ctr"); err == nil {
		t.Error("there is no such directory")
	}
}

func TestALockThatIsALinkIsRefusedAndWhatItNamesStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers", "ctr.sock")
	notes := filepath.Join(t.TempDir(), "notes")
	err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(notes, []byte("mine"), 0o600), os.Symlink(notes, path+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, "ctr"); err == nil || !strings.Contains(err.Error(), ".lock is a link") {
		t.Error(err)
	}
	if text, err := os.ReadFile(notes); err != nil || string(text) != "mine" {
		t.Error(string(text), err)
	}
}

func TestWhatIsAnotherUsersIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	path := filepath.Join(t.TempDir(), "servers", "ctr.sock")
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path+".lock", nil, 0o600), os.Chown(path+".lock", 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, "ctr"); err == nil || !strings.Contains(err.Error(), ".lock is no file, or another user's") {
		t.Error(err)
	}
	if err := os.Chown(filepath.Dir(path), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, "ctr"); err == nil || !strings.Contains(err.Error(), "is another user's, who may replace the socket") {
		t.Error(err)
	}
}
