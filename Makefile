# `make` builds .venv and lists the targets. Nothing but make and Python 3.11+ has to be installed by hand.
#
# The environment is made once and again when pyproject.toml changes. `make demo` installs Morrow and the libraries that it
# needs; every other target adds the tools, PySpark and the libraries of all extras. Another interpreter: make PYTHON=python3.13 test
# More arguments for pytest: make test ARGS="-k golden -x"

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=

BIN   := $(VENV)/bin
READY := $(VENV)/.ready
INSTALLED := $(VENV)/.installed
DATA  := bench/.data
PAGES := $(wildcard *.md .github/*.md docs/*.md docs/decisions/*.md docs/guides/*.md examples/data/*.md)

# Tests spread over the cores, the dearest files first; WORKERS=0 runs them in this process (for a debugger).
# Two workers more than cores, since tests wait for disks, other processes and JVMs.
WORKERS ?= $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) + 2)")
PYTEST  := $(BIN)/pytest -q -n $(WORKERS)

MAKEFLAGS += --no-print-directory
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := setup
.PHONY: setup help demo demo-spark check check-tests test test-long test-matrix bench bench-quick bench-compare bench-peers docs lint format dist clean

setup: $(READY) help  ## make the environment (.venv), then list the targets

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED)  ## read real Paimon tables (merges, time travel, DuckDB, the plan) and write one; installs no tools
	@$(BIN)/python examples/demo.py

demo-spark: $(READY)  ## run a pipeline on Spark
	@$(BIN)/python examples/pipeline.py

check: $(READY)  ## lint, types and the quick tests, side by side: minutes
	@$(MAKE) -j2 -Otarget lint check-tests

check-tests: $(READY)
	@HYPOTHESIS_PROFILE=check $(PYTEST) --quick $(ARGS)

test: $(READY)  ## run the tests, the golden tables among them
	@$(PYTEST) $(ARGS)

test-long: $(READY)  ## run the tests with many more random examples
	@HYPOTHESIS_PROFILE=long $(PYTEST) $(ARGS)

test-matrix: $(READY)  ## run a smoke on PySpark 3.5 to 4.3, and tests with the oldest and newest libraries (downloads)
	@$(BIN)/python -m tests.matrix $(ARGS)

bench: $(READY) bench-peers  ## measure everything, write bench/RESULTS.md (40 minutes; peers included)
	@$(BIN)/python -m bench.run $(ARGS)

bench-quick: $(READY)  ## measure with small tables and no peers, print the result (a few minutes)
	@$(BIN)/python -m bench.run --quick $(ARGS)

bench-compare: $(READY)  ## compare with another revision, in turns: make bench-compare REV=main; fails where this tree is slower
	@$(BIN)/python -m bench.revisions $(or $(REV),HEAD) $(ARGS)

bench-peers: $(READY)  ## install the readers we compare with, each in an environment of its own
	@$(BIN)/python -m bench.peers install

lint: $(READY)  ## ruff, formatting of code and documents, mypy strict, the layers, spelling
	@echo "ruff check";   $(BIN)/ruff check .
	@echo "ruff format";  $(BIN)/ruff format --check .
	@echo "mdformat";     $(BIN)/mdformat --check $(PAGES)
	@echo "mypy";         $(BIN)/mypy
	@echo "lint-imports"; $(BIN)/lint-imports --no-cache
	@echo "codespell";    $(BIN)/codespell engine readers writers morrow bench/*.py docs .github $(PAGES)

format: $(READY)  ## format code and documents, sort the imports
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .
	@$(BIN)/mdformat $(PAGES)

docs: $(READY)  ## build the site of the documents into site/, to be read and searched without a network
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo "site/index.html"

dist: $(READY)  ## build the sdist and the wheel into dist/
	@rm -rf dist build && mkdir dist
	@$(BIN)/python -c 'from setuptools import build_meta as b; b.build_sdist("dist"); b.build_wheel("dist")' > /dev/null
	@rm -rf build && ls dist

clean:  ## remove the environment, caches and generated tables
	@rm -rf $(VENV) $(DATA) bench/.peers .matrix build dist site .cache *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	    .benchmarks .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	    { echo "Morrow needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV) || \
	    { echo "python3 -m venv failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "installing Morrow and the libraries that it needs (once; under a minute, 0.6 GB)"
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $(INSTALLED)

# pip 25.1 is the first that installs dependency groups, so pip itself comes first. The build backend is installed as well:
# the packaging test builds the wheel without a network.
$(READY): $(INSTALLED)
	@echo "installing the tools, PySpark and the libraries of all extras (once; a minute or two, 1 GB)"
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' 'setuptools>=77'
	@PYTHONWARNINGS='ignore:Editable installation' $(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $(READY)
