package config

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

const smallest = `{"models": [{"name": "ctr", "base_path": "/m/ctr"}],
 "processor": {"library": "/l.so", "tensorflow": "/tf"}, "grpc": {"address": "127.0.0.1:0"}}`

func TestWhatIsLeftOutHasDefaults(t *testing.T) {
	config, err := Parse([]byte(smallest))
	if err != nil {
		t.Fatal(err)
	}
	if config.Models[0].Versions.Latest != 1 || !config.Processor.EnableInlineExecute {
		t.Errorf("%+v", config)
	}
	if limits := config.Limits; limits.ConcurrentRequests != 2*runtime.GOMAXPROCS(0) ||
		limits.QueuedRequests != 8*runtime.GOMAXPROCS(0) || limits.RequestBytes != 16<<20 ||
		limits.Deadline() != 10*time.Second {
		t.Errorf("%+v", limits)
	}
	if config.Poll() != time.Second || config.Drain() != 30*time.Second {
		t.Errorf("%v %v", config.Poll(), config.Drain())
	}
}

func TestEverythingCanBeSet(t *testing.T) {
	config, err := Parse([]byte(`{"models": [{"name": "ctr", "base_path": "/m", "versions": {"specific": [3, 4]},
	 "version_labels": {"Stable": 3}}],
	 "processor": {"library": "/l.so", "tensorflow": "/tf", "intra_op_parallelism_threads": 1,
	  "inter_op_parallelism_threads": 2, "enable_inline_execute": false},
	 "grpc": {"address": "127.0.0.1:8500"}, "rest": {"address": "[::1]:8501"},
	 "limits": {"request_bytes": 1024, "concurrent_requests": 3, "queued_requests": 5, "request_seconds": 0.5},
	 "poll_seconds": 0.25, "drain_seconds": 0,
	 "tls": {"certificate": "c", "key": "k", "client_ca": "a"}, "tokens_file": "t", "access_log": "-"}`))
	if err != nil {
		t.Fatal(err)
	}
	if config.Processor.EnableInlineExecute || config.Limits.QueuedRequests != 5 || config.Poll() != 250*time.Millisecond {
		t.Errorf("%+v", config)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	for _, each := range []struct{ old, new, says string }{
		{`"models"`, `"modles"`, `unknown field "modles"`},
		{`"models"`, `"Models"`, `unknown field "Models"`},
		{`"grpc"`, `"poll_seconds": 2, "poll_seconds": 3, "grpc"`, `"poll_seconds" is there twice`},
		{`"/m/ctr"`, `"/m", "version_labels": {"a": 1, "a": 2}`, `"a" is there twice`},
		{`{"address": "127.0.0.1:0"}}`, `{"address": "127.0.0.1:0"}} x`, "something follows"},
		{`"name": "ctr"`, `"name": "a/b"`, `models[0]: name is "a/b"`},
		{`"/m/ctr"`, `"m"`, `base_path is "m"`},
		{`"/m/ctr"`, `"/m", "versions": {"latest": 1, "all": true}`, "more than one policy"},
		{`"/m/ctr"`, `"/m", "versions": {"specific": []}`, "specific is empty"},
		{`"/m/ctr"`, `"/m", "versions": {"specific": [0]}`, "specific has 0"},
		{`"/m/ctr"`, `"/m", "versions": {"latest": -1}`, "latest is -1"},
		{`"/m/ctr"`, `"/m", "version_labels": {"stable": 0}`, `"stable" is version 0`},
		{`"/m/ctr"}`, `"/m"}, {"name": "ctr", "base_path": "/n"}`, "there twice"},
		{`"/l.so"`, `""`, `processor.library is ""`},
		{`"127.0.0.1:0"`, `""`, "neither grpc.address"},
		{`"127.0.0.1:0"`, `"here"`, `grpc.address is "here"`},
		{`"grpc"`, `"limits": {"request_bytes": 0}, "grpc"`, "limits.request_bytes is 0; allowed: 1 to"},
		{`"grpc"`, `"limits": {"concurrent_requests": -1}, "grpc"`, "limits.concurrent_requests is -1"},
		{`"grpc"`, `"limits": {"request_seconds": 0}, "grpc"`, "limits.request_seconds is 0"},
		{`"grpc"`, `"poll_seconds": 0, "grpc"`, "poll_seconds is 0"},
		{`"grpc"`, `"tls": {"certificate": "x"}, "grpc"`, "tls needs certificate and key"},
	} {
		text := strings.Replace(smallest, each.old, each.new, 1)
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), each.says) {
			t.Errorf("%s: %v; expected: %s", text, err, each.says)
		}
	}
	if _, err := Parse([]byte(`{"models": []}`)); err == nil || !strings.Contains(err.Error(), "models is empty") {
		t.Error(err)
	}
}
