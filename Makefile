# Each command sets up what it needs; a second call starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench docs lock clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 14

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "duet's locked environment needs Python 3.11 or newer; give one with: make PYTHON=python3.12" >&2; exit 2; }
	@test -x $(BIN)/python || { echo "Making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing the locked dependencies (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

setup: $(READY)  ## make the virtual environment in .venv

demo: $(READY)  ## train DUET and SimCLR on digits, measure both, draw what was learned
	@$(BIN)/duet demo

test: $(READY)  ## run the tests
	@$(BIN)/python -m pytest

lint: $(READY)  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(READY)  ## measure the speed, side by side with Kornia
	@$(BIN)/python benchmarks/views.py
	@$(BIN)/python benchmarks/feature.py
	@$(BIN)/python benchmarks/training.py

docs: $(READY)  ## build the guide and the API reference into docs/_build
	@$(BIN)/sphinx-build --fail-on-warning --quiet docs docs/_build
	@echo "docs/_build/index.html"

lock:  ## renew requirements.lock from pyproject.toml
	@$(PYTHON) -m venv .lock-venv
	@.lock-venv/bin/python -m pip install --quiet --upgrade pip
	@.lock-venv/bin/python -m pip install --quiet torch==2.13.0 -e '.[dev]'
	@{ echo "# Exact versions for the development environment: renew with make lock."; \
	   .lock-venv/bin/python -m pip freeze --exclude-editable | sed -E 's/^(torch==[0-9.]+)\+.*/\1/'; } > requirements.lock.new
	@mv requirements.lock.new requirements.lock
	@rm -rf .lock-venv

clean:  ## remove the environment and caches
	rm -rf $(VENV) .lock-venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info
