# Two commands are enough: `make lab` to use CacheLab, `make test` to check it. Both set it up first.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTENSION := $(VENV)/.extension
FRONT := $(shell find labext -path labext/node_modules -prune -o -path labext/lib -prune -o -path labext/.yarn -prune \
  -o -type f ! -name '*.md' -print)
SUPPORTED := import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))
CANDIDATES := python3 python3.13 python3.12 python3.11 python3.10 python
PYTHON ?= $(shell for p in $(CANDIDATES); do $$p -c '$(SUPPORTED)' 2>/dev/null && { echo $$p; break; }; done)
N ?= 2000
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: help setup lab test check fuzz fuzz-modes mutants bench bench-peers clean

help:
	@echo 'make setup        make .venv and install CacheLab in it, with the test tools'
	@echo 'make lab          open JupyterLab on notebooks/00_start_here.ipynb'
	@echo 'make test         make check, then every test'
	@echo 'make check        lint, format and types'
	@echo 'make fuzz N=2000  random programs against an independent truth'
	@echo 'make fuzz-modes N=2000  random programs in every mode against plain runs'
	@echo 'make mutants      do the tests notice deliberate mistakes?'
	@echo 'make bench        what recording costs'
	@echo 'make bench-peers  side by side with other ways to do the same'

setup: $(STAMP) $(EXTENSION)

# Only a changed pyproject.toml installs again, so that the second run is quick.
$(STAMP): pyproject.toml
	@if ! '$(PYTHON)' -c '$(SUPPORTED)' 2>/dev/null; then \
	  echo 'CacheLab needs Python 3.10 to 3.13; none was found as $(CANDIDATES).' >&2; \
	  echo 'Install one, or name it: make setup PYTHON=/path/to/python3.12' >&2; exit 1; fi
	@if ! '$(PYTHON)' -c 'import ensurepip, venv' 2>/dev/null; then \
	  echo '$(PYTHON) has no venv module; on Debian and Ubuntu it is the package python3-venv.' >&2; exit 1; fi
	'$(PYTHON)' -m venv $(VENV)
	@echo 'Installing what CacheLab needs and building its JupyterLab extension: some minutes, the first time.'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

# A changed front end is built again with the tools that are there by then, which needs no network.
$(EXTENSION): $(FRONT) | $(STAMP)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-index --no-build-isolation --editable .
	@touch $@

lab: setup
	$(BIN)/cachelab lab

test: check
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: setup
	$(BIN)/python tests/fuzz/run.py --n $(N)

fuzz-modes: setup
	$(BIN)/python tests/fuzz/modes_run.py --n $(N)

mutants: setup
	$(BIN)/python tests/mutants/run.py

bench: setup
	$(BIN)/python benchmarks/recording.py

bench-peers: setup
	'$(PYTHON)' -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	$(BIN)/python benchmarks/per_example.py --peers .venv-peers/bin/python

clean:
	rm -rf $(VENV) cachelab/labextension labext/lib .mypy_cache .ruff_cache .pytest_cache
