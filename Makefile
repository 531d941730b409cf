# make quickstart   install and run a real sweep on real data, ending in a table and a report
# make test         install and run the whole test suite (no GPU, no network but the package index)
# make lint         ruff and mypy
# VENV=path uses another virtual environment; PYTHON=python3.12 another interpreter; STORE=path another result folder.

VENV ?= .venv
PYTHON ?= python3
STORE ?= quickstart-results
BIN := $(VENV)/bin
STAMP := $(VENV)/.aucsweep-installed

# One thread per process: trials run side by side, and two threads each on a busy machine collapse.
export OMP_NUM_THREADS := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: install quickstart test lint clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt requirements-demo.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-demo.txt
	touch $@

quickstart: $(STAMP)
	$(BIN)/aucsweep launch quickstart --store $(STORE)
	$(BIN)/aucsweep table main --store $(STORE)
	$(BIN)/aucsweep report --store $(STORE) -o $(STORE)/report.html

test: $(STAMP)
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
