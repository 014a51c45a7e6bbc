# Every command of this project. `make` alone prints this help.
# The only things needed beforehand: Python 3.11 or newer, make, and the package indexes.

SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
PARTS  := $(BIN)/python tests/support/parts.py
SERVERS := -n 3 --dist loadfile --no-loadscope-reorder
UV     := 0.13.9
BUILDS := 1.33.0

# One venv for everything; members of it are found first, whatever the caller's shell holds.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help:  ## print this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(READY)  ## make the virtual environment (every other target does it by itself)

$(READY): requirements.lock build.lock pyproject.toml packaging/sandbox/pyproject.toml
	@test -n "$(PYTHON)" || { echo "groupshift needs Python 3.11 or newer; none was found on PATH."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "groupshift needs Python 3.11 or newer; $(PYTHON) is older. Set PYTHON=/path/to/python3.11."; exit 1; }
	@echo "setting up $(VENV) (once; a few minutes on a cold machine)"
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { \
	  test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq python3-venv && $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -m pip install -q --require-hashes -r build.lock
	@$(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r requirements.lock
	@$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e . -e packaging/sandbox
	@touch $@

.PHONY: demo
demo: $(READY)  ## show a move on real servers (MOVE=coordination|protocol|downgrade|expansion; DEMO_APPROVE=me: you answer)
	@$(BIN)/groupshift demo $(MOVE)

.PHONY: test
test: test-begin check test-fast test-servers  ## all checks and all tests
	@$(PARTS) end

.PHONY: test-begin
test-begin: $(READY)
	@$(PARTS) begin

.PHONY: test-landed
test-landed: $(READY)  ## write the second tries of the last `make test` and the seconds of its files into tests/*.json
	@$(PARTS) landed

.PHONY: test-field
test-field: $(READY)  ## lay the tests of field reports over an older commit and tell which fail there: BASE=e3c5898
	@$(BIN)/python tests/support/field.py "$(BASE)" $(ONLY)

.PHONY: check
check: $(READY)  ## ruff, mypy strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory --jobs 2 --output-sync types plugin-types
	$(BIN)/lint-imports --no-cache

.PHONY: types plugin-types
types: $(READY)
	$(BIN)/mypy

plugin-types: $(READY)
	MYPYPATH=plugins $(BIN)/mypy --cache-dir .mypy_cache/plugin --ignore-missing-imports --explicit-package-bases plugins/groupshift_airflow

.PHONY: test-fast
test-fast: $(READY)  ## unit, engine, golden, property, conformance and architecture tests (no server)
	$(PARTS) run fast -n 3 --dist worksteal tests/goldens tests/properties tests/conformance tests/engine tests/unit tests/architecture

.PHONY: test-servers
test-servers: $(READY)  ## the four below in one run (a file stays in one process, and so do all that hold a Spark session)
	$(PARTS) run servers --again $(SERVERS) tests/spark tests/live tests/browser tests/airflow

.PHONY: test-spark
test-spark: $(READY)  ## Spark jobs and checks, some on a real Spark cluster
	$(PARTS) run spark --again tests/spark

.PHONY: test-live
test-live: $(READY)  ## consumers, adapters, `groupshift run` and its report in Chromium (installed where it is missing and may), on real servers
	$(PARTS) run live --again $(SERVERS) tests/live tests/browser

.PHONY: test-airflow
test-airflow: $(READY)  ## DAGs, plugin and runs in a real Airflow
	$(PARTS) run airflow --again $(SERVERS) tests/airflow

.PHONY: test-browser
test-browser: $(READY)  ## of `test-live` the report of a real run in Chromium
	$(PARTS) run browser tests/browser

CONTROL_PLANE := .groupshift/control-plane-1.35.4
APISERVER := tests/matrix/apiserver

$(CONTROL_PLANE): $(APISERVER)/go.mod $(APISERVER)/go.sum $(APISERVER)/main.go
	@command -v go > /dev/null || { echo "make matrix builds Kubernetes from Go modules: install Go 1.25 or newer."; exit 1; }
	@echo "building the Kubernetes control plane (once; about ten minutes on two cores, 3 GB of Go's caches)"
	@mkdir -p $(@D)
	@cd $(APISERVER) && go build -buildvcs=false -o $(CURDIR)/$@ \
	  -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v1.35.4" .

# The files whose names have the word MATRIX, without one all; only the driver's need a control plane.
MATRIX_FILES := $(wildcard tests/matrix/test_*$(MATRIX)*.py)

.PHONY: matrix
matrix: $(READY) $(if $(filter %/test_kubernetes_real.py,$(MATRIX_FILES)),$(CONTROL_PLANE))  ## the driver kubernetes on a real API server and its controllers (long at first; MATRIX=expansion: files of that name)
	@test -n "$(MATRIX_FILES)" || { echo "MATRIX=$(MATRIX) is in no name of tests/matrix/test_*.py"; exit 2; }
	GROUPSHIFT_CONTROL_PLANE=$(CURDIR)/$(CONTROL_PLANE) $(PYTEST) $(if $(MATRIX),$(MATRIX_FILES),tests/matrix)

.PHONY: bench
bench: $(READY)  ## a benchmark, peer and ours in one run: make bench BENCH=toggle
	@test -f "benchmarks/$(subst -,_,$(BENCH)).py" || { echo "BENCH=$(BENCH) is no benchmark; there are: $$(ls benchmarks/*.py | xargs -n1 basename -s .py | tr '\n' ' ')"; exit 2; }
	@$(BIN)/python benchmarks/$(subst -,_,$(BENCH)).py

.PHONY: chaos
chaos: $(READY)  ## random faults on a mixed group of real members: make chaos SEED=1 MINUTES=30
	@$(BIN)/python -m groupshift_sandbox.chaos --seed $(or $(SEED),1) --minutes $(or $(MINUTES),4)

.PHONY: size
size: $(READY)  ## how large the product is, against the budgets of the design
	@$(BIN)/python tests/support/size.py

.PHONY: format
format: $(READY)  ## let ruff format and fix
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

.PHONY: lock
lock:  ## resolve the dependencies anew into requirements.lock
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet -o requirements.lock
	printf 'uv==$(UV)\nhatchling==$(BUILDS)\n' | $(BIN)/uv pip compile - --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet -o build.lock

.PHONY: clean
clean:  ## stop a sandbox that is still up and remove what the targets made
	@test ! -x $(BIN)/groupshift || $(BIN)/groupshift sandbox down || true
	rm -rf $(VENV) .groupshift .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
