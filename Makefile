# make lab    build .venv, then JupyterLab on chapter 1 in a working copy
# make test   build .venv, then everything that can be checked on this machine
#
# make lint       style, types and the direction of imports
# make notebooks  derive the notebooks from their text sources
# make derived    fail on a derived notebook that is stale or gives an answer away
# make clean      remove .venv and what tools left behind, never your workbook
#
#   PYTHON=python3.12   the interpreter to build .venv with (3.11 or newer)
#   TORCH=cpu           PyTorch's small build without CUDA
#   WORKERS=4           processes that run the tests side by side (2)
#   ARGS="--port 9000"  further words for `ironlaw lab` or pytest

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help lab test lint derived notebooks env-labs env-dev clean

# The first Python on this machine that is new enough, unless PYTHON names one.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c '$(NEW_ENOUGH)' 2>/dev/null && { echo $$p; break; }; done)
TORCH ?=
# Processes that share the tests out; each may use two cores.
WORKERS ?= 2
ARGS ?=
BIN := .venv/bin

help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' Makefile

lab: env-labs
	@$(BIN)/ironlaw lab $(ARGS)

# pytest comes last, so that its closing line closes the run.
test: env-dev lint derived
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --durations=15 $(ARGS)

lint: env-dev
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

derived: env-dev
	@$(BIN)/ironlaw-autograder check

notebooks: env-dev
	@$(BIN)/ironlaw-autograder build

env-labs env-dev: env-%:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer was found. Install one," \
		"or name it: make lab PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c '$(NEW_ENOUGH)' 2>/dev/null || { echo "$(PYTHON) is missing or too old:" \
		"the course needs Python 3.11 or newer. Name one: PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) binder/build_env.py $* --torch "$(TORCH)"

# The environment and everything that tools left behind; never the workbook.
clean:
	@rm -rf .venv .build build dist .mypy_cache .ruff_cache .pytest_cache \
		.import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
