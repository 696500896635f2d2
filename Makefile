# The developer's whole interface. `make demo` and `make test` work on a fresh machine.
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# What has no target of its own. Tests that share the one Hadoop run one after the other.
QUICK := not soak and not kills and not equivalence and not faults and not compare_faults and not versions and not pairs

TESTED_WITH := python native doctest hadoop kerberos firewall browser
PYTEST = $(BIN)/python tests/support/rerun_failures.py run
SIDE_BY_SIDE := -n 2 --dist loadfile --max-worker-restart 0
DAY := $(shell expr $$(date +%s) / 86400)

.DEFAULT_GOAL := help
.PHONY: help install demo model-server test test-slice test-all lint typecheck format bench fuzz sim test-faults test-pairs test-versions soak soak-serving kills equivalence compare-faults reports structure wheel clean

help: ## Say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# A change of these builds the operations anew, as part of the install.
NATIVE := $(wildcard afo/core/*.h afo/core/*.cc afo/ops/*.h afo/ops/*.cc afo/ops/*/*.h afo/ops/*/*.cc \
  afo/serving/*.h afo/serving/*.cc afo/psplus/*.h afo/psplus/*.cc afo/*/CMakeLists.txt)
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c conf/constraints.txt

# What the build needs goes into the environment itself: pip would else unpack a second TensorFlow for its headers.
$(INSTALLED): pyproject.toml conf/constraints.txt afo/ops/build_hook.py $(NATIVE)
	.ci/system-packages python native
	.ci/system-packages serving || echo "afo is installed without its processor (docs/serving.md), which nothing else needs"
	.ci/system-packages psplus || echo "afo is installed without its own parameter server (docs/environments.md), which nothing else needs"
	.ci/make-venv $(VENV)
	$(PIP_INSTALL) hatchling editables cmake 'tensorflow-cpu==2.21.*'
	$(PIP_INSTALL) --no-build-isolation -e '.[dev]'
	touch $@

# Nothing that trains needs it.
MODEL_SERVER := afo/serving/afo_model_server
$(MODEL_SERVER): $(INSTALLED) $(shell find model_server -type f) .ci/build-model-server
	.ci/build-model-server $(VENV) $@
	# Its own client, for tests; TensorFlow itself is there under another name.
	$(PIP_INSTALL) --no-deps tensorflow-serving-api

install: $(INSTALLED) ## Install afo and its tools into .venv

demo: $(INSTALLED) ## Train Wide & Deep on synthetic clicks with real processes on this machine
	$(BIN)/afo demo --dir build/demo

model-server: $(MODEL_SERVER) ## Build the server that `afo serve` starts, with Go and a C compiler that pip installs

test: $(INSTALLED) $(MODEL_SERVER) ## Run the tests but the slow ones, on a real Hadoop too; installs what they need; twenty minutes
	.ci/system-packages $(TESTED_WITH)
	$(PYTEST) $(SIDE_BY_SIDE) -m "$(QUICK) and not slow and not hadoop"
	$(PYTEST) -m "$(QUICK) and not slow and hadoop"

test-slice: $(INSTALLED) $(MODEL_SERVER) ## Run the slow tests whose turn it is today: at most ten minutes
	.ci/system-packages $(TESTED_WITH) boost
	$(PYTEST) $(SIDE_BY_SIDE) -m "$(QUICK) and slow and not hadoop" --slice $(DAY):360
	$(PYTEST) -m "$(QUICK) and slow and hadoop" --slice $(DAY):120

test-all: $(INSTALLED) $(MODEL_SERVER) ## Run every test, the slow ones too; two hours
	.ci/system-packages $(TESTED_WITH) boost
	$(PYTEST) $(SIDE_BY_SIDE) -m "$(QUICK) and not hadoop"
	$(PYTEST) -m "$(QUICK) and hadoop"

AREAS := test-afo test-am test-child test-client test-core test-history_server test-integration
.PHONY: $(AREAS) test-hadoop
$(AREAS): test-%: $(INSTALLED) $(MODEL_SERVER)
	.ci/system-packages $(TESTED_WITH)
	$(PYTEST) $(SIDE_BY_SIDE) -m "$(QUICK) and not hadoop" tests/$*

test-hadoop: $(INSTALLED) ## Run every test on a real Hadoop; also test-afo, -am, -child, -client, -core, -history_server, -integration
	.ci/system-packages $(TESTED_WITH)
	$(PYTEST) -m "$(QUICK) and hadoop"

lint: $(INSTALLED) ## Style, imports, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

typecheck: $(INSTALLED) ## mypy, strict
	$(BIN)/mypy

format: $(INSTALLED) ## Rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Alone: `make bench BENCH="job servers"`.
bench: $(INSTALLED) ## Run the benchmarks and end with one table; a missed bar makes it fail (1); other libraries take 8 GB
	.ci/system-packages python native boost hadoop
	$(BIN)/python benchmarks/run.py $(BENCH)

fuzz: $(MODEL_SERVER) ## Fuzzers on the engine's table and on readers of checkpoints, served tables, messages, calls, requests and TFRecord files, five minutes each
	.ci/system-packages native fuzz
	tests/core/fuzz.sh 300
	cd model_server && for package in models:FuzzModelSpec restapi:FuzzPredictBody; do \
	  ../$(BIN)/go test -run '^$$' -fuzz "$${package#*:}" -fuzztime 300s "./internal/$${package%:*}" || exit 1; done

sim: $(INSTALLED) ## 100,000 random schedules of faults against the AM, then mutants of it; 20 to 40 minutes
	PYTHONPATH=tests/support $(BIN)/python -m simulation --report build/sim/report.json

soak: $(INSTALLED) ## A kill every 45 s in jobs on real YARN: goodput, recovery; takes an hour
	.ci/system-packages python hadoop
	$(BIN)/python -m pytest -m soak --override-ini timeout=7200

soak-serving: $(MODEL_SERVER) ## A job that trains and exports, a server and load on it for an hour, with faults of each
	.ci/system-packages python hadoop
	PYTHONPATH=benchmarks $(BIN)/python -m serving_soak

kills: $(INSTALLED) ## Kills at random steps over ten seeds on real YARN, and of who saves tables; takes about two hours
	.ci/system-packages python hadoop
	$(BIN)/python -m pytest -m kills --override-ini timeout=7200

test-pairs: $(INSTALLED) ## Fail-over of NameNodes and ResourceManagers around jobs on real YARN; ten minutes
	.ci/system-packages python native hadoop
	$(BIN)/python -m pytest -m pairs -s

test-faults: $(INSTALLED) ## Daemons, nodes, memory and processes fail around jobs on real YARN
	.ci/system-packages python hadoop
	$(BIN)/python -m pytest -m faults --override-ini timeout=1800

test-versions: $(INSTALLED) ## A job on each version of Hadoop and Java, and under each scheduler; takes half an hour
	.ci/system-packages python hadoop
	$(BIN)/python -m pytest tests/integration/yarn/test_versions.py -m hadoop

equivalence: $(INSTALLED) ## Four models on real YARN against Keras alone; takes about an hour
	.ci/system-packages python hadoop
	$(BIN)/python -m pytest -m equivalence --override-ini timeout=7200

compare-faults: $(INSTALLED) ## The same faults against afo and TensorFlow alone, on this machine; takes half an hour
	$(BIN)/python -m pytest -m compare_faults

reports: ## Say how old each report is, in commits that touched what it speaks of
	@python3 tests/support/report_ages.py

structure: ## Count folders, lengths, names and import circles of the modules
	@python3 tests/support/structure.py

wheel: $(INSTALLED) $(MODEL_SERVER) ## Build the wheels into dist/: manylinux with the operations, and one for any system without
	.ci/make-wheels $(abspath $(BIN))/python dist

clean: ## Remove what was built, the virtual environment too
	rm -rf $(VENV) build dist
