# `make run` and `make test` need Python 3.11 or later and nothing else.
#
#   make run                                   the main experiment and its report
#   make run CONFIG=bandits/b3_caption_contest another experiment (see `make list`)
#   make test                                  format, lint, types, rooms, tests
#   make test-all                              the same with the slow tests
#   make bench | make colabs | make report     timings, notebooks, all reports

VENV ?= .venv
PYTHON ?= python3
CONFIG ?= bandits/model_selection
ARGS ?=
BIN := $(VENV)/bin
EXTRAS := test,colab
JOBS ?= 2
SUITES := "$(wildcard tests/test_*.py)" \
  $(sort $(dir $(wildcard tests/*/test_*.py tests/*/*/test_*.py)))
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.jax_cache

.PHONY: run list test test-all lint bench colabs report clean

run: $(VENV)/.installed
	$(BIN)/jaxlab run $(CONFIG) $(ARGS)

list: $(VENV)/.installed
	$(BIN)/jaxlab list

# A process for each folder of tests, JOBS at a time: one can hold only so many
# programs, and compiling keeps one core busy. Each prints when it is done. Status 5
# means that none of its tests was selected.
PYTEST = printf '%s\n' $(SUITES) | xargs -P $(JOBS) -I{} sh -c ' \
	  log=$$(mktemp); $(BIN)/python -m pytest $(1) $(ARGS) {} >$$log 2>&1; \
	  code=$$?; echo "{}"; cat $$log; rm $$log; [ $$code -eq 0 ] || [ $$code -eq 5 ]'

test: lint
	@$(call PYTEST,-m "not slow")

test-all: lint
	@$(call PYTEST,)

lint: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks $(ARGS)

colabs: $(VENV)/.installed
	$(BIN)/python -m colabs $(ARGS)

report: $(VENV)/.installed
	$(BIN)/jaxlab report --results=RESULTS.md

# uv where there is one, else pip; again whenever the dependencies change.
$(VENV)/.installed: setup.cfg pyproject.toml setup.py
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && \
	  uv pip install --quiet --python $(BIN)/python -e '.[$(EXTRAS)]'; \
	else \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS)]'; \
	fi
	@touch $@

clean:
	rm -rf $(VENV) .jax_cache build dist *.egg-info
