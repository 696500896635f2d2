package config

import (
	"runtime"
	"slices"
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
	config, err := Parse([]byte(`{"models": [{"name": "ctr", "base_path": "/m", "model_version_policy": {"specific": {"versions": [3, 4]}},
	 "version_labels": {"Stable": 3}}],
	 "processor": {"library": "/l.so", "tensorflow": "/tf", "intra_op_parallelism_threads": 1,
	  "inter_op_parallelism_threads": 2, "enable_inline_execute": false,
	  "session_num": 2, "select_session_policy": "MOD", "cpusets": "0;1"},
	 "grpc": {"address": "127.0.0.1:8500"}, "rest": {"address": "[::1]:8501"},
	 "limits": {"request_size": 1024, "concurrent_requests": 3, "queued_requests": 5, "request_timeout": 0.5, "connections": 7},
	 "file_system_poll_wait": 0.25, "shutdown_delay": 0.5, "drain_timeout": 0,
	 "tls": {"certificate": "c", "key": "k", "client_ca": "a"}, "tokens_file": "t", "access_log": "-"}`))
	if err != nil {
		t.Fatal(err)
	}
	if config.Processor.EnableInlineExecute || config.Processor.SessionNum != 2 || config.Processor.CPUSets != "0;1" || config.Limits.QueuedRequests != 5 || config.Limits.Connections != 7 || config.Poll() != 250*time.Millisecond ||
		config.Delay() != 500*time.Millisecond {
		t.Errorf("%+v", config)
	}
}

func TestARolloutHasDefaults(t *testing.T) {
	config, err := Parse([]byte(strings.Replace(smallest, `"/m/ctr"`, `"/m", "version_labels": {"a": 1, "B": 2}, "canary": {"gate": {"max_error_rate": 0}},
	 "traffic": {"mirror": {"label": "B", "percent": 10}}`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	canary := config.Models[0].Canary
	if gate := canary.Gate.Bounds(); canary.TrafficPercent != 5 || canary.Duration() != 10*time.Minute || gate.MaxErrorRate != 0 ||
		gate.MaxLatencyRatio != 1.5 || gate.MaxScorePSI != 0.2 || gate.MinRequests != 200 || config.Name != "default" || config.Control != nil {
		t.Errorf("%+v %+v", canary, gate)
	}
	split := strings.Replace(smallest, `"/m/ctr"`, `"/m", "version_labels": {"a": 1, "B": 2}, "traffic": {"hash_header": "x-user-id", "split": {"a": 90, "B": 10}}`, 1)
	if config, err = Parse([]byte(split)); err != nil || config.Models[0].Traffic.Split["B"] != 10 {
		t.Error(config, err)
	}
}

func TestGroupsOfThreadsCompute(t *testing.T) {
	for processor, want := range map[Processor]bool{
		{EnableInlineExecute: true, SessionNum: 1}: true, {SessionNum: 1}: false, {EnableInlineExecute: true, SessionNum: 2}: false,
		{EnableInlineExecute: true, SessionNum: 1, CPUSets: "0"}: false,
	} {
		if got := processor.AskersCompute(); got != want {
			t.Errorf("%+v: %v", processor, got)
		}
	}
}

func TestPoliciesAreThoseOfTensorFlowServing(t *testing.T) {
	for text, want := range map[string]Versions{
		`{"latest": {"num_versions": 2}}`: {Latest: 2}, `{"latest": {}}`: {Latest: 1}, `{"all": {}}`: {All: true},
		`{"specific": {"versions": [4, 3]}}`: {Specific: []int64{4, 3}},
	} {
		config, err := Parse([]byte(strings.Replace(smallest, `"/m/ctr"`, `"/m", "model_version_policy": `+text, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if got := config.Models[0].Versions; got.Latest != want.Latest || got.All != want.All || !slices.Equal(got.Specific, want.Specific) {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	for _, each := range []struct{ old, new, says string }{
		{`"models"`, `"modles"`, `unknown field "modles"`},
		{`"models"`, `"Models"`, `unknown field "Models"`},
		{`"grpc"`, `"file_system_poll_wait": 2, "file_system_poll_wait": 3, "grpc"`, `"file_system_poll_wait" is there twice`},
		{`"/m/ctr"`, `"/m", "version_labels": {"a": 1, "a": 2}`, `"a" is there twice`},
		{`{"address": "127.0.0.1:0"}}`, `{"address": "127.0.0.1:0"}} x`, "something follows"},
		{`"name": "ctr"`, `"name": "a/b"`, `models[0]: name is "a/b"`},
		{`"/m/ctr"`, `"m"`, `base_path is "m"`},
		{`"/m/ctr"`, `"webhdfs://ns/m"`, "webhdfs cannot be read here; allowed: an absolute path of this machine, or hdfs://"},
		{`"/m/ctr"`, `"hdfs://ns/m"`, `cache_directory is ""; models[0] comes from HDFS`},
		{`"/m/ctr"}],`, `"hdfs://ns/m"}, {"name": "cvr", "base_path": "hdfs://ns/m"}], "cache_directory": "/c",`,
			"models[1]: base_path is that of ctr"},
		{`"grpc"`, `"kerberos": {"keytab": "/k"}, "grpc"`, "kerberos needs principal"},
		{`"grpc"`, `"kerberos": {"principal": "afo", "keytab": "k"}, "grpc"`, `kerberos.keytab is "k"`},
		{`"/m/ctr"`, `"/m", "model_version_policy": {"latest": {"num_versions": 1}, "all": {}}`, "has [latest, all]; allowed: one of"},
		{`"/m/ctr"`, `"/m", "model_version_policy": {"specific": {"versions": []}}`, "models[0]: model_version_policy.specific.versions is empty"},
		{`"/m/ctr"`, `"/m", "model_version_policy": {"specific": {"versions": [0]}}`, "specific.versions has 0"},
		{`"/m/ctr"`, `"/m", "model_version_policy": {"latest": {"num_versions": 0}}`, "latest.num_versions is 0"},
		{`"/m/ctr"`, `"/m", "model_version_policy": {}`, "has []; allowed: one of"},
		{`"/m/ctr"`, `"/m", "model_version_policy": {"latest": {"num_version": 1}}`, `unknown field "num_version"`},
		{`"/m/ctr"`, `"/m", "model_version_policy": {"all": true}`, "model_version_policy: json: cannot unmarshal bool"},
		{`"grpc"`, `"shutdown_delay": -1, "grpc"`, "shutdown_delay is -1 seconds"},
		{`"/m/ctr"`, `"/m", "version_labels": {"stable": 0}`, `"stable" is version 0`},
		{`"/m/ctr"}`, `"/m"}, {"name": "ctr", "base_path": "/n"}`, "there twice"},
		{`"/l.so"`, `""`, `processor.library is ""`},
		{`"/l.so"`, `"/l.so", "session_num": 65`, "processor.session_num is 65; allowed: 1 to 64"},
		{`"127.0.0.1:0"`, `""`, "neither grpc.address"},
		{`"127.0.0.1:0"`, `"here"`, `grpc.address is "here"`},
		{`"grpc"`, `"limits": {"request_size": 0}, "grpc"`, "limits.request_size is 0; allowed: 1 to"},
		{`"grpc"`, `"limits": {"concurrent_requests": -1}, "grpc"`, "limits.concurrent_requests is -1"},
		{`"grpc"`, `"limits": {"request_timeout": 0}, "grpc"`, "limits.request_timeout is 0"},
		{`"/m/ctr"`, `"/m", "reserved_concurrency": -1`, "reserved_concurrency is -1"},
		{`"/m/ctr"}],`, `"/m", "reserved_concurrency": 2}, {"name": "b", "base_path": "/b"}], "limits": {"concurrent_requests": 2},`,
			"and 1 for those without, are 3; limits.concurrent_requests is 2"},
		{`"grpc"`, `"file_system_poll_wait": 0, "grpc"`, "file_system_poll_wait is 0"},
		{`"grpc"`, `"tls": {"certificate": "x"}, "grpc"`, "tls needs certificate and key"},
		{`"grpc"`, `"name": "a/b", "grpc"`, `name is "a/b"`},
		{`"grpc"`, `"control": {"socket": "/s", "state_file": "x"}, "grpc"`, `control.state_file is "x"; allowed: an absolute path`},
		{`"/m/ctr"`, `"/m", "canary": {"traffic_percent": 100}`, "canary.traffic_percent is 100"},
		{`"/m/ctr"`, `"/m", "canary": {"duration": -1}`, "canary.duration is -1 seconds"},
		{`"/m/ctr"`, `"/m", "canary": {"hash_header": "X-User"}`, `canary.hash_header is "X-User"`},
		{`"/m/ctr"`, `"/m", "canary": {"gate": {"min_requests": 0}}`, "canary.gate.min_requests is 0"},
		{`"/m/ctr"`, `"/m", "canary": {"gate": {"max_score_psi": 0}}`, "canary.gate.max_score_psi is 0; allowed: 0.001 or more"},
		{`"/m/ctr"`, `"/m", "canary": {}, "model_version_policy": {"all": {}}`, "`latest` alone"},
		{`"/m/ctr"`, `"/m", "version_labels": {"a": 1}, "canary": {}, "traffic": {"split": {"a": 100}}`, "canary and traffic.split are both there"},
		{`"/m/ctr"`, `"/m", "traffic": {}`, "neither split nor mirror"},
		{`"/m/ctr"`, `"/m", "traffic": {"split": {"a": 100}}`, `traffic.split has "a", which is no label`},
		{`"/m/ctr"`, `"/m", "version_labels": {"a": 1, "b": 2}, "traffic": {"split": {"a": 90, "b": 9}}`, "its shares sum to 100"},
		{`"/m/ctr"`, `"/m", "version_labels": {"a": 1, "b": 2}, "traffic": {"split": {"a": 100, "b": 0}}`, `"b" has 0 percent`},
		{`"/m/ctr"`, `"/m", "traffic": {"mirror": {"label": "a", "percent": 10}}`, "traffic.mirror.label is"},
		{`"/m/ctr"`, `"/m", "version_labels": {"a": 1}, "traffic": {"mirror": {"label": "a"}}`, "traffic.mirror.percent is 0"},
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
