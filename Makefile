# `make demo` and `make test` need make and Python 3.11 or newer; what else they need, they install.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# A candidate counts only when it really runs and can make virtual environments: version shims exist for absent versions.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	if "$$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	then command -v "$$python"; break; fi; done)
VENV ?= .venv
READY := $(VENV)/.ready
LIBRARIES := $(VENV)/.libraries
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
JOBS ?= 2
# Tests that share what is made once (`xdist_group`) stay on one worker, or each worker makes it.
WORKERS := -n $(JOBS) --dist loadgroup

# command:package, for what the tests run beside Python
SYSTEM := strace:strace chromium:chromium npm:npm

# Older kernels for the browser tests, each laid over the environment by its path, and the judge of accessibility.
BROWSER := .browser
KERNELS := 7.3.0 6.31.0
AXE := 4.14.1

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test lint unit kernel forms values browser others system venv notebooks bench clean

help: ## what there is
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

demo: $(READY) ## kill a notebook's kernel again and again, and count what the shop saw
	@$(BIN)/resumable demo

test: lint system ## everything: lint, units, kernels, a browser, other Pythons
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory kernel
	@$(MAKE) --no-print-directory browser
	@$(MAKE) --no-print-directory others

lint: $(READY) ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

unit: $(READY) ## fast tests
	$(PYTEST) -q -m "not kernel and not sweep and not browser" $(WORKERS)

kernel: $(READY) $(LIBRARIES) system ## tests that start and kill real kernels
	$(PYTEST) -q -m "kernel or sweep" $(WORKERS)

# What is written down of functions, classes and values, which differs from Python to Python.
forms: $(READY)
	$(PYTEST) -q -m "not kernel and not sweep" $(WORKERS) tests/test_canonical.py tests/test_codec.py tests/test_fingerprint.py \
		tests/test_frozen.py tests/test_groups.py tests/test_joints.py tests/test_kept_sharing.py tests/test_snapshot.py \
		tests/test_snapshot_processes.py tests/test_source.py tests/test_scope.py tests/test_rewrite.py

# What comes back after a kernel was killed depends on the Python: on what it keeps in classes and functions.
values: $(READY)
	$(PYTEST) -q $(WORKERS) tests/fidelity/test_definitions.py tests/fidelity/test_many.py

browser: $(READY) $(BROWSER)/.ready system ## clicks in a real browser, in JupyterLab and Notebook 7
	$(PYTEST) -q -m browser

$(BROWSER)/.ready: $(READY) Makefile | system
	@for version in $(KERNELS); do \
		$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(BROWSER)/ipykernel-$$version \
			ipykernel==$$version nest-asyncio==1.6.0; done
	@npm install --silent --no-audit --no-fund --prefix $(BROWSER) axe-core@$(AXE)
	@touch $@

# Every other supported Python on this machine, each once: on PATH or among pyenv's. The newest runs all units.
others: $(READY)
	@main=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); ran=" $$main "; found=""; failed=""; \
	for python in python3.13 python3.12 python3.11 $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.1[123]*/bin/python; do \
		version=$$("$$python" -c 'import sys, ensurepip, venv; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
		[[ "$$ran" == *" $$version "* ]] && continue; \
		ran="$$ran$$version "; found="$$found$$version $$python"$$'\n'; \
	done; \
	part=unit; \
	while read -r version python; do \
		[ -n "$$version" ] || continue; \
		echo "== $$part and values under Python $$version"; \
		$(MAKE) --no-print-directory $$part values VENV=.venv-$$version PYTHON="$$python" </dev/null \
			|| failed="$$failed $$version"; \
		part=forms; \
	done < <(sort -t . -k 2nr <<< "$$found"); \
	echo "Tests ran under Python:$$ran"; \
	if [ -n "$$failed" ]; then echo "and failed under:$$failed"; exit 1; fi

system:
	@missing=""; for each in $(SYSTEM); do command -v "$${each%%:*}" >/dev/null || missing="$$missing $${each##*:}"; done; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
		else echo "The tests need these system packages; install them first:$$missing" >&2; exit 1; fi; \
	fi

venv: $(READY)

$(READY): pyproject.toml constraints.txt
	@if [ -z "$(PYTHON)" ]; then \
		echo "No Python 3.11 or newer with the venv module was found (on Debian: apt-get install python3 python3-venv)." >&2; exit 1; fi
	@echo "Making $(VENV) with $$("$(PYTHON)" --version): this takes a minute or two, once"
	@rm -f $@
	@"$(PYTHON)" -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

# What only the tests with real kernels need.
$(LIBRARIES): $(READY)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,libraries]'
	@touch $@

notebooks: $(READY) ## run the example notebooks and save them with their outputs
	@$(BIN)/python tests/notebooks/refresh.py

bench: $(READY) ## what it costs, as ratios against what it is measured against
	@$(BIN)/python -m benchmarks

clean: ## remove what these commands made
	rm -rf $(BROWSER) .venv .venv-3.1? .mypy_cache .ruff_cache .pytest_cache .hypothesis
