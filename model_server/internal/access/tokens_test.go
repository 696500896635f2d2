package access

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"afo/model_server/internal/logtest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	first  = "first-token-0123456789"
	second = "second-token-0123456789"
)

func logger() (*slog.Logger, *logtest.Log) {
	to := &logtest.Log{}
	return slog.New(slog.NewTextHandler(to, nil)), to
}

func write(t *testing.T, path, content string) {
	t.Helper()
	// As an editor or a secret's mount does: the path never has half of it.
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func openTokens(t *testing.T, content string) (*Tokens, string, *logtest.Log) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, content)
	log, said := logger()
	tokens, err := OpenTokens(path, log)
	if err != nil {
		t.Fatal(err)
	}
	return tokens, path, said
}

func TestATokenIsItsOwners(t *testing.T) {
	tokens, _, _ := openTokens(t, "# who asks\n\n ann\t"+first+" \r\nbob "+second+"\nann "+first+"-2\n")
	for presented, want := range map[string]string{first: "ann", second: "bob", first + "-2": "ann", first[:20]: "", "": "", "ann": ""} {
		if who, ok := tokens.Who(presented); who != want || ok != (want != "") {
			t.Errorf("%q: %q %v", presented, who, ok)
		}
	}
}

func TestAFileOfTokensThatIsWrongIsRefusedWithoutSayingWhatIsInIt(t *testing.T) {
	for content, want := range map[string]string{
		"":                                     "has no token",
		"# ann " + first:                       "has no token",
		first:                                  "line 1 has 1 words",
		"ann " + first + " more":               "line 1 has a third word that is not `admin`",
		"ann " + first + " admin more":         "line 1 has 4 words",
		"\n" + first + " ann":                  "line 2 has a token of 3 characters, of 16 to",
		"ann " + first + "é":                   "line 1 has a token with a character",
		"ann " + strings.Repeat("a", 2000):     "line 1 has a token of 2000 characters",
		strings.Repeat("a", 300) + " " + first: "line 1 has a name that is longer",
		"ann " + first + "\nbob " + first:      "line 2 has the token of line 1",
		strings.Repeat("a", 70000):             "token too long",
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		write(t, path, content)
		log, _ := logger()
		_, err := OpenTokens(path, log)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "first") {
			t.Errorf("%.40q: %v, want %s", content, err, want)
		}
	}
}

func TestAFileOfTokensIsItsOwnersAlone(t *testing.T) {
	_, path, _ := openTokens(t, "ann "+first)
	log, _ := logger()
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o620} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenTokens(path, log); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("%#o: %v", mode, err)
		}
	}
	if _, err := OpenTokens(filepath.Dir(path), log); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
	if _, err := OpenTokens(path+"-", log); err == nil {
		t.Error("a file that is not there has tokens")
	}
}

func TestTokensAreReadAgainWhenTheirFileChanged(t *testing.T) {
	tokens, path, said := openTokens(t, "ann "+first)
	now := time.Now()
	tokens.entries.now = func() time.Time { return now }
	is := func(token, want string) {
		t.Helper()
		if who, _ := tokens.Who(token); who != want {
			t.Errorf("the token is %q's, not %q's", who, want)
		}
	}
	write(t, path, "bob "+second)
	is(second, "") // not looked at in the same second
	now = now.Add(checkEvery)
	is(second, "bob")
	is(first, "")

	write(t, path, first)
	for range 3 {
		now = now.Add(checkEvery)
		is(second, "bob")
	}
	if logged := said.String(); strings.Count(logged, "cannot be used") != 1 || strings.Contains(logged, "first-") {
		t.Errorf("logged: %s", logged)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	now = now.Add(checkEvery)
	is(second, "bob")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now = now.Add(checkEvery)
	is(second, "bob")
	if logged := said.String(); strings.Count(logged, "cannot be used") != 3 {
		t.Errorf("logged: %s", logged)
	}
	write(t, path, "ann "+first)
	now = now.Add(checkEvery)
	is(first, "ann")
}

func TestRequestsOfHTTPNeedAToken(t *testing.T) {
	tokens, _, _ := openTokens(t, "ann "+first)
	var who string
	handler := tokens.HTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { who = EntryOf(r.Context()).Who }))
	for _, one := range []struct {
		path    string
		headers []string
		code    int
	}{
		{"/v1/models/ctr", nil, 401},
		{"/metrics", nil, 401},
		{"/healthz", nil, 200},
		{"/readyz", nil, 200},
		{"/healthz/", nil, 401},
		{"/v1/models/ctr", []string{"Bearer " + first}, 200},
		{"/v1/models/ctr", []string{"bearer  " + first}, 200},
		{"/v1/models/ctr", []string{"Bearer " + second}, 401},
		{"/v1/models/ctr", []string{"Bearer"}, 401},
		{"/v1/models/ctr", []string{"Bearer "}, 401},
		{"/v1/models/ctr", []string{first}, 401},
		{"/v1/models/ctr", []string{"Basic " + first}, 401},
		{"/v1/models/ctr", []string{"Bearer " + first, "Bearer " + first}, 401},
	} {
		request := httptest.NewRequest(http.MethodGet, one.path, nil)
		request.Header["Authorization"] = one.headers
		entry := &Entry{}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request.WithContext(WithEntry(request.Context(), entry)))
		refused := one.code == http.StatusUnauthorized
		if recorder.Code != one.code || refused != (recorder.Header().Get("WWW-Authenticate") == "Bearer") {
			t.Errorf("%s %q: %d %v", one.path, one.headers, recorder.Code, recorder.Header())
		}
		if body := recorder.Body.String(); refused != strings.HasPrefix(body, `{"error":"`) || strings.Contains(body, "-token-") {
			t.Errorf("%s %q: %s", one.path, one.headers, body)
		}
		if many := strings.Contains(recorder.Body.String(), "more than one header Authorization"); many != (len(one.headers) > 1) {
			t.Errorf("%s %q: %s", one.path, one.headers, recorder.Body)
		}
		if want := one.code == 200 && one.path == "/v1/models/ctr"; want != (entry.Who == "ann" && who == "ann") {
			t.Errorf("%s %q is of %q", one.path, one.headers, entry.Who)
		}
	}
}

func TestAStrangerIsRefusedBeforeTheBodyCame(t *testing.T) {
	tokens, _, _ := openTokens(t, "ann "+first)
	server := httptest.NewServer(tokens.HTTP(http.NotFoundHandler()))
	defer server.Close()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(20 * time.Second)) //nolint:errcheck // a connection has one
	if _, err := io.WriteString(connection, "POST /v1/models/ctr:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(connection)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401 ") {
		t.Errorf("%s %v", answer, err)
	}
}

func TestCallsOfGRPCNeedAToken(t *testing.T) {
	tokens, _, _ := openTokens(t, "ann "+first)
	for header, want := range map[string]string{"Bearer " + first: "ann", "Bearer " + second: "", "": ""} {
		ctx := context.Background()
		if header != "" {
			ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", header))
		}
		who, err := tokens.Authenticate(ctx)
		if who != want || (err == nil) != (want != "") || (err != nil && status.Code(err) != codes.Unauthenticated) {
			t.Errorf("%q: %q %v", header, who, err)
		}
	}
	if who, err := (*Tokens)(nil).Authenticate(context.Background()); who != "" || err != nil {
		t.Errorf("without tokens: %q %v", who, err)
	}
	if !NeedsNoToken("/grpc.health.v1.Health/Check") || NeedsNoToken("/tensorflow.serving.PredictionService/Predict") {
		t.Error("the wrong methods need a token")
	}
}
