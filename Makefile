# make demo   sets up .venv and makes pretraining records of examples/corpus
# make check  sets up .venv and runs the checks, and the tests that need no TensorFlow (2 minutes)
# make test   sets up .venv and runs all checks and tests
# make docs   builds the documentation site into build/site; any warning is an error
# make lint | bench | clean

PYTHON ?= python3
WORKERS ?= 3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
OUT := demo-output
CORPUS := examples/corpus

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export TF_CPP_MIN_LOG_LEVEL := 2
export NO_MKDOCS_2_WARNING := 1

.DEFAULT_GOAL := help
.PHONY: help demo check test docs lint bench clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	    echo "nlpdata needs Python 3.11, 3.12 or 3.13; '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)." >&2; \
	    echo "Name another one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "Python's venv module is missing. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@echo "Installing nlpdata and what it depends on (some minutes, about 3.5 GB)"
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(READY)
	@echo "== Train a vocabulary of 1,000 pieces"
	@$(BIN)/nlpdata train-tokenizer --input '$(CORPUS)/*.txt' --output $(OUT)/spm --vocab-size 1000 --overwrite
	@echo "== Make records: sentence order (ALBERT)"
	@$(BIN)/nlpdata create-pretraining --input '$(CORPUS)/*.txt' --tokenizer $(OUT)/spm.model \
	    --output $(OUT)/sop.tfrecord --max-seq-length 64 --dupe-factor 2 --overwrite
	@echo "== Make records: next sentence (BERT)"
	@$(BIN)/nlpdata create-pretraining --input '$(CORPUS)/*.txt' --tokenizer $(OUT)/spm.model \
	    --output $(OUT)/nsp.tfrecord --objective nsp --max-seq-length 64 --dupe-factor 2 --overwrite
	@echo "== Verify both"
	@$(BIN)/nlpdata verify '$(OUT)/sop.tfrecord*'
	@$(BIN)/nlpdata verify '$(OUT)/nsp.tfrecord*'
	@echo "== Two records of each, decoded"
	@$(BIN)/nlpdata inspect '$(OUT)/nsp.tfrecord*' --limit 2
	@$(BIN)/nlpdata inspect '$(OUT)/sop.tfrecord*' --limit 2

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

check: lint
	@$(BIN)/python -m pytest --quiet --light -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: lint
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

docs: $(READY)
	@$(BIN)/python -m mkdocs build --strict --quiet
	@echo "written: build/site/index.html"

bench:
	@echo "Benchmarks; benchmarks/README.md says how to run them:"
	@ls benchmarks/*.py

clean:
	rm -rf $(VENV) $(OUT) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
