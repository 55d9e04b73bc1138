# make demo: set up everything and run the main job on examples/corpus. make test: set up everything and run all tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT := demo-output
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export TF_CPP_MIN_LOG_LEVEL := 2

.PHONY: demo test lint clean

$(VENV)/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; \
	  sys.exit(0 if (3, 11) <= v <= (3, 13) else "nlpdata needs Python 3.11, 3.12 or 3.13; %s is %d.%d. Use make PYTHON=python3.12" % (sys.executable, *v))'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "Python's venv module is missing: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@echo "Installing dependencies (TensorFlow and Beam among them: about two minutes) ..."
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(VENV)/ready
	$(BIN)/nlpdata train-tokenizer --input 'examples/corpus/*.txt' --output $(OUT)/spm --vocab-size 500 --character-coverage 1.0 --overwrite
	$(BIN)/nlpdata create-pretraining --input 'examples/corpus/*.txt' --tokenizer $(OUT)/spm.model --output $(OUT)/train.tfrecord \
	  --max-seq-length 64 --dupe-factor 2 --overwrite
	$(BIN)/nlpdata verify $(OUT)/train.tfrecord
	$(BIN)/nlpdata inspect $(OUT)/train.tfrecord --limit 2

test: lint
	$(BIN)/python -m pytest --numprocesses 2 --dist loadscope

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

clean:
	rm -rf $(VENV) $(OUT) *.egg-info .pytest_cache .ruff_cache .hypothesis
