# Two commands for a newcomer: make demo, make test. Both need Python 3.11 to 3.13 and nothing else.
PYTHON ?= $(shell for p in python3.12 python3.13 python3.11 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
TORCH := 2.13.0
WORKERS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)

.PHONY: help install torch demo lint test test-slow benchmark benchmark-gpu lock clean

help:
	@echo "make demo       train a small population and look at it: three minutes after installation"
	@echo "make test       linters, types, rooms, tests, README"
	@echo "make test-slow  the tests that take more than ten seconds each"
	@echo "make torch      add PyTorch, whose models can be explained; its tests run once it is there"
	@echo "make benchmark  the speed benchmarks (installs PyTorch beside, in .venv-benchmark)"
	@echo "make benchmark-gpu  the same on an NVIDIA GPU, beside a PyTorch that is there (docs/performance.md)"
	@echo "make lock       pin the dependencies anew in constraints.txt"

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11, 3.12 or 3.13 found: install one, or say make PYTHON=/path/to/python"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable . --group dev
	@touch $@

torch: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==$(TORCH)

demo: install
	$(BIN)/untwist demo

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m "not slow"

test-slow: install
	$(BIN)/pytest -n $(WORKERS) -m slow

benchmark: install
	$(BIN)/python -m venv .venv-benchmark
	.venv-benchmark/bin/python -m pip install --quiet torch==$(TORCH) numpy
	$(BIN)/python benchmarks/training.py --torch .venv-benchmark/bin/python

benchmark-gpu: install
	$(BIN)/python benchmarks/gpu/measure.py

lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet uv
	.venv-lock/bin/uv pip compile --universal --python-version 3.11 --group dev --no-annotate --no-header --output-file constraints.txt pyproject.toml
	rm -rf .venv-lock

clean:
	rm -rf $(VENV) .venv-benchmark
