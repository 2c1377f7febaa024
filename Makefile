# Everything runs from a fresh clone with nothing but Python 3.11+ (with pip) and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS := $(VENV)-docs

.DEFAULT_GOAL := help
.PHONY: help docs install constraints demo demo-cluster demo-sim bench-cluster bench-inputs bench-live bench-predict chaos test test-slow test-devices test-all lint format bench bench-policies bench-schedulers bench-genetic bench-scale bench-train clean

help: ## list the targets
	@echo "Elastane: make TARGET"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-12s %s\n", $$1, $$2 }'

install: $(STAMP) $(DOCS)/.installed ## install into .venv (again only after pyproject.toml or constraints.txt changed)

# The stamp is written last, so an installation that broke off is repeated.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Elastane needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "installing Elastane and its development tools into $(VENV) (about a minute) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@
	@echo "installed $$($(BIN)/python -c 'import elastane; print("elastane", elastane.__version__)') in $(VENV)"

# An environment of its own: the site's tools and what we depend on need not agree.
$(DOCS)/.installed: tools/docs-requirements.txt
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# A fresh environment without constraints: what the bounds in pyproject.toml allow today.
constraints: ## pin the newest allowed versions of all dependencies in constraints.txt (then run the tests)
	@$(PYTHON) -m venv --clear build/constraints
	@build/constraints/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@build/constraints/bin/python tools/constraints.py

demo: install ## five real training jobs share this machine; writes report.html (about three minutes)
	@$(BIN)/elastane demo

demo-cluster: install ## jobs on three hosts in a box: one dies, one is cut off, one is added (two minutes; needs root)
	@$(BIN)/elastane demo --cluster

demo-sim: install ## compare four policies on a built-in workload; writes report.html
	@$(BIN)/elastane demo --sim

test: install ## the tests (15 minutes on two quiet cores)
	@$(BIN)/pytest -m "not slow"

# pytest answers 5 when there is nothing to run, which is no failure here.
test-slow: install ## only the tests marked slow
	@$(BIN)/pytest -m slow || [ $$? -eq 5 ]

test-devices: install ## whole jobs on pretend GPUs: growth, deaths, transports, bench-gpu (needs g++)
	@$(BIN)/pytest -m devices

test-all: install ## every test
	@$(BIN)/pytest

lint: install ## ruff (style and format) and mypy (types)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: install ## rewrite the sources in the house format
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

# One thread for linear algebra: the figures are CPU seconds, and small matrices gain nothing from more.
BENCH := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m

bench: install ## figures of the ground floor; fails where a gate is missed
	@$(BENCH) benchmarks.ground_floor

bench-policies: install ## our own policy against Pollux, and its waiting bound in 1,000 streams (about half an hour)
	@ELASTANE_STREAMS=1000 $(BIN)/pytest -m slow tests/policies/elastane/test_waiting_bound.py
	@$(BENCH) benchmarks.policies

bench-schedulers: install ## published schedulers against the figures of their own simulators (needs ../shared/data)
	@$(BENCH) benchmarks.schedulers

bench-genetic: install ## fidelity of Pollux's genetic search (about 15 minutes)
	@$(BENCH) benchmarks.fidelity --genetic

bench-scale: install ## 1,000 to 10,000 jobs on 1,024 GPUs (tens of minutes)
	@$(BENCH) benchmarks.scale

bench-train: install ## figures of elastic training: pauses, kills, accuracy, overheads (about 40 minutes)
	@OMP_NUM_THREADS=1 $(BENCH) benchmarks.train

bench-live: install ## figures of the live system: decisions, submissions, start-up, specs
	@$(BENCH) benchmarks.live.rounds
	@$(BENCH) benchmarks.live --only submissions --only specs --only fidelity

bench-cluster: install ## hosts in a box that die, cables that are pulled, workers that move (about an hour; needs root)
	@$(BENCH) benchmarks.cluster

bench-predict: install ## figures of prediction (about half an hour; needs ../shared/data)
	@OMP_NUM_THREADS=1 $(BENCH) benchmarks.predict

bench-inputs: install ## 3,000 damaged input files (traces, logs, profiles, specs …), each handed to its verb (about ten minutes)
	@$(BENCH) benchmarks.inputs

chaos: install ## kill -9 of control plane, agents and workers, again and again; broken stores; hostile jobs
	@$(BENCH) benchmarks.live --only control --only agents --only store --only hostile

docs: install ## build the documentation site into build/site, without network; broken links fail
	@$(DOCS)/bin/python tools/pages.py
	@$(DOCS)/bin/mkdocs build --quiet --strict
	@echo "build/site/index.html"

clean: ## remove .venv, caches and everything that was built
	@rm -rf $(VENV) $(DOCS) build dist runs report report.html .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
