package processor

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// built compiles the fake processor, and empty libraries in TensorFlow's place.
func built(t *testing.T) (library, tensorflow string) {
	t.Helper()
	directory := t.TempDir()
	library = filepath.Join(directory, "libafo_processor.so")
	empty := filepath.Join(directory, "empty.c")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for target, source := range map[string]string{
		library:                                 "testdata/fake.c",
		filepath.Join(directory, tensorFlow[0]): empty,
		filepath.Join(directory, tensorFlow[1]): empty,
	} {
		if output, err := exec.Command("gcc", "-shared", "-fPIC", "-o", target, source).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	return library, directory
}

func opened(t *testing.T) *Library {
	t.Helper()
	path, tensorflow := built(t)
	library, err := Open(path, tensorflow, Options{IntraOpThreads: 3, EnableInlineExecute: true})
	if err != nil {
		t.Fatal(err)
	}
	return library
}

func TestAModelAnswersAndSaysWhatIsWrong(t *testing.T) {
	model, err := opened(t).Load(`/models/"c t r"`)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	for _, request := range [][]byte{[]byte("hello"), {}, nil, make([]byte, 1<<20)} {
		if answer, err := model.Process(request); err != nil || !bytes.Equal(answer, request) {
			t.Errorf("%d bytes: %d bytes, %v", len(request), len(answer), err)
		}
	}
	for request, expected := range map[string]*status.Status{
		"4": status.New(codes.InvalidArgument, "bad \uFFFD request"),
		"5": status.New(codes.Internal, "bad model"),
		"0": status.New(codes.Internal, "the processor had no answer (status 500)"),
	} {
		_, err := model.Process([]byte(request))
		if got := status.Convert(err); got.Code() != expected.Code() || got.Message() != expected.Message() {
			t.Errorf("%v; expected %v", got, expected)
		}
	}
	const config = `{"savedmodel_dir":"/models/\"c t r\"","intra_op_parallelism_threads":3,` +
		`"inter_op_parallelism_threads":0,"enable_inline_execute":true}`
	if info, err := model.Info(); err != nil || string(info) != config {
		t.Errorf("%s, %v", info, err)
	}
}

func TestManyGoroutinesCallAtOnce(t *testing.T) {
	model, err := opened(t).Load("/m")
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	var group sync.WaitGroup
	for n := range 16 {
		group.Go(func() {
			request := bytes.Repeat([]byte{byte(n)}, 1000+n)
			for range 200 {
				if answer, err := model.Process(request); err != nil || !bytes.Equal(answer, request) {
					t.Errorf("%d: %v", n, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestWhatCannotBeLoadedSaysWhy(t *testing.T) {
	path, tensorflow := built(t)
	for _, each := range []struct{ path, tensorflow, says string }{
		{path, "/nowhere", "processor.tensorflow is /nowhere"},
		{"/nowhere.so", tensorflow, "processor.library is /nowhere.so"},
		{filepath.Join(tensorflow, tensorFlow[0]), tensorflow, "initialize"},
	} {
		if _, err := Open(each.path, each.tensorflow, Options{}); err == nil || !strings.Contains(err.Error(), each.says) {
			t.Errorf("%v; expected: %s", err, each.says)
		}
	}
	if _, err := opened(t).Load("/broken"); err == nil || err.Error() != "cannot serve: it is broken" {
		t.Error(err)
	}
}

func TestACrashInTheLibraryEndsTheProcessWithATrace(t *testing.T) {
	if os.Getenv("AFO_TEST_CRASH") != "" {
		model, err := opened(t).Load("/m")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = model.Process([]byte("S"))
		t.Fatal("it went on")
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "AFO_TEST_CRASH=1")
	output, err := child.CombinedOutput()
	if err == nil || !bytes.Contains(output, []byte("SIGSEGV")) || !bytes.Contains(output, []byte("afo_process")) {
		t.Errorf("%v: %s", err, output)
	}
}

func TestProcessorTimeIsOfTheCallsThreadAlone(t *testing.T) {
	library := opened(t)
	for _, each := range []struct {
		options Options
		known   bool
	}{{Options{AskersCompute: true, IntraOpThreads: 1}, true}, {Options{AskersCompute: true}, false}, {Options{EnableInlineExecute: true, IntraOpThreads: 1}, false}} {
		library.options = each.options
		model, err := library.Load("/m")
		if err != nil {
			t.Fatal(err)
		}
		if _, known := model.MeanCPU(); known {
			t.Error("nothing was computed")
		}
		if _, err := model.Process([]byte("sleep")); err != nil {
			t.Fatal(err)
		}
		// The fake sleeps for half a second, which takes no processor.
		if took, known := model.MeanCPU(); known != each.known || took < 0 || took > 250*time.Millisecond || known && took == 0 {
			t.Error(took, known)
		}
		model.Close()
	}
}
