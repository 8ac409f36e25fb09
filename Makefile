# Each command sets up what it needs; a second call starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
TORCH := torch==2.13.0
LOCKING := .lock-venv
LOWEST := .lowest-venv
AUDIT := .audit-venv
# Tests run in so many processes, each with one thread.
JOBS ?= 2

# $(call install,environment,what): pip's warnings stay in a file, which is shown when pip fails.
# Python compiles what is imported by itself, which is a small part of what is installed.
install = $(1)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check $(2) 2> $(1)/pip.log || \
  { cat $(1)/pip.log >&2; exit 1; }

# $(call freeze,environment,purpose): what is installed there, but pip and duet themselves.
freeze = { echo "\# Exact versions $(2): renew with make lock."; \
  $(1)/bin/python -m pip freeze --all --exclude pip --exclude-editable | sed -E 's/^(torch==[0-9.]+)\+.*/\1/'; }

.DEFAULT_GOAL := help
.PHONY: help setup demo test fuzz lint bench docs lock lowest audit licences clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 14

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "duet's locked environment needs Python 3.11 or newer; give one with: make PYTHON=python3.12" >&2; exit 2; }
	@test -x $(BIN)/python || { echo "Making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing what duet needs to run, in locked versions (about a minute the first time)"
	@$(call install,$(VENV),-r requirements.lock)
	@$(call install,$(VENV),--no-deps --no-build-isolation --editable .)
	@touch $@

$(READY_DEV): requirements-dev.lock $(READY)
	@echo "Adding what developing needs, in locked versions (about a minute the first time)"
	@$(call install,$(VENV),-r requirements-dev.lock)
	@touch $@

setup: $(READY_DEV)  ## make the development environment in .venv

demo: $(READY)  ## train DUET and SimCLR on digits, measure both, draw what was learned
	@$(BIN)/duet demo

test: $(READY_DEV)  ## run the tests
	@OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile

fuzz: $(READY_DEV)  ## the fuzz tests, fifty times the usual, from a seed of the day
	@OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest tests/fuzz -n $(JOBS) --timeout 0 \
	  --fuzz-times 50 --fuzz-seed $$(date +%Y%m%d)

lint: $(READY_DEV)  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(READY_DEV)  ## measure the speed, side by side with Kornia
	@$(BIN)/python benchmarks/views.py
	@$(BIN)/python benchmarks/feature.py
	@$(BIN)/python benchmarks/training.py
	@$(BIN)/python benchmarks/evaluation.py
	@$(BIN)/python benchmarks/trunk.py
	@$(BIN)/python benchmarks/embed.py

docs: $(READY_DEV)  ## build the guide and the API reference into docs/_build
	@$(BIN)/sphinx-build --fail-on-warning --quiet docs docs/_build
	@echo "docs/_build/index.html"

lock:  ## renew both locks from pyproject.toml
	@rm -rf $(LOCKING) && $(PYTHON) -m venv $(LOCKING)/dev && $(PYTHON) -m venv $(LOCKING)/run
	@$(call install,$(LOCKING)/dev,$(TORCH) --editable '.[dev]')
	@$(call freeze,$(LOCKING)/dev,for developing) > $(LOCKING)/requirements-dev.lock
	@$(call install,$(LOCKING)/run,--constraint $(LOCKING)/requirements-dev.lock $(TORCH) --editable .)
	@$(call freeze,$(LOCKING)/run,for running duet) > $(LOCKING)/requirements.lock
	@mv $(LOCKING)/requirements-dev.lock $(LOCKING)/requirements.lock .
	@rm -rf $(LOCKING)

lowest: $(READY_DEV)  ## run the tests with the lowest versions that pyproject.toml allows
	@OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python .ci/lowest.py --venv $(LOWEST) --extras export -- -n $(JOBS) --dist loadfile

audit:  ## known vulnerabilities of the locked versions; needs the network
	@test -x $(AUDIT)/bin/pip-audit || $(PYTHON) -m venv $(AUDIT)
	@$(call install,$(AUDIT),pip-audit)
	@$(AUDIT)/bin/pip-audit --strict --disable-pip --no-deps --requirement requirements.lock
	@$(AUDIT)/bin/pip-audit --strict --disable-pip --no-deps --requirement requirements-dev.lock

licences: $(READY_DEV)  ## renew docs/licences.md from what is installed
	@$(BIN)/python .ci/licences.py

clean:  ## remove the environment and caches
	rm -rf $(VENV) $(LOCKING) $(LOWEST) $(AUDIT) .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info
