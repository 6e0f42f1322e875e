# demo, test, check, bench: each sets up .venv by itself on the first call (under a minute) and is quick after that.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Tests compare runs bit for bit: one thread each. Demo and benchmarks choose for themselves.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST_WORKERS ?= 2
# Some environments ask for no bytecode, and pip wrote none here: each process would compile torch anew, for 6 s or more.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test check bench bench-peers lint setup clean
.DELETE_ON_ERROR:

# ARGS goes to the command: make demo ARGS="--seed 2"
demo: $(READY)
	$(BIN)/indigo demo $(ARGS)

test: lint
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(PYTEST_WORKERS) $(ARGS)

check: lint
	$(ONE_THREAD) TEST_PROFILE=quick $(BIN)/python -m pytest -n $(PYTEST_WORKERS) -m "not slow" $(ARGS)

bench: $(READY)
	$(BIN)/python benchmarks/run.py $(ARGS)

# Other toolkits in an environment of their own, at our sizes: make bench-peers ARGS=3 makes three rounds.
PEERS := .venv-peers
bench-peers: $(READY) $(PEERS)/.ready
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python benchmarks/peers/compare.py $(PEERS)/bin/python $(ARGS)

$(PEERS)/.ready: benchmarks/peers/requirements.txt | $(READY)
	test -x $(PEERS)/bin/python || $(BIN)/python -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt torch
	$(BIN)/uv pip install --quiet --python $(PEERS)/bin/python -r benchmarks/peers/requirements.txt
	@touch $@

lint: $(VENV)/.warm
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Once: the first mypy takes half a minute on one core; meanwhile the other one writes the bytecode that all tests load.
$(VENV)/.warm: $(READY)
	@$(BIN)/mypy > /dev/null & \
	$(BIN)/python -c 'import torch._dynamo, pytest; pytest.main(["--collect-only", "-qq"])' > /dev/null; wait
	@touch $@

setup: $(READY)

clean:
	rm -rf $(VENV) $(PEERS) .pytest_cache .mypy_cache .ruff_cache .hypothesis

# pip brings torch (uv alone takes the CUDA build even where pip's index has a smaller one), uv the rest.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "indigo needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt torch uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[dev]' -c constraints.txt
	@touch $@
