# `make demo` and `make test` do the whole set-up on a fresh machine; run again, they start at once.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

# Made anew each time, so the demo always shows what the code does now.
.PHONY: demo test lint check docs site pictures results format mutants fuzz lock lowest clean
N ?= 2000
SEED ?= 1

demo: $(STAMP)
	rm -rf runs/demo
	$(BIN)/seqcredit demo

test: $(STAMP)
	$(BIN)/pytest -n 2 --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow"

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)
	$(BIN)/python docs/make.py

site: $(STAMP) # docs/site/index.html; needs no network
	$(BIN)/python -m sphinx -q -W --keep-going -d build/site docs docs/site

pictures: $(STAMP) # after `make demo`
	$(BIN)/python docs/pictures.py

results: $(STAMP)
	$(BIN)/seqcredit report

fuzz: $(STAMP) # N=2000 bad inputs of SEED=1, then accidents: a line a finding, with the command that repeats it
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzz -n $(N) --seed $(SEED)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzz.accidents -n 100 --seed $(SEED)

mutants: $(STAMP) # all of them, which takes hours; `python tests/mutants.py losses` takes those of some files
	$(BIN)/python tests/mutants.py

INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check

$(STAMP): pyproject.toml constraints.txt $(if $(LOCKED),lock.txt)
	@echo "Installing into .venv, once: about two minutes."
	$(PYTHON) -m venv .venv
ifdef LOCKED # the versions of lock.txt and no others, each file checked by its hash: Python 3.11 on Linux
	$(INSTALL) --require-hashes -r lock.txt
	$(INSTALL) --no-deps --no-build-isolation -e .
else
	$(INSTALL) -c constraints.txt -e '.[dev]'
endif
	touch $@

lock: # lock.txt anew, with the newest versions; UV_FIND_LINKS or UV_EXTRA_INDEX_URL says where the CPU build of torch is
	$(PYTHON) -m venv build/uv
	build/uv/bin/pip install --quiet uv
	rm -f lock.txt
	build/uv/bin/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-annotate \
		--custom-compile-command 'make lock' --extra dev -c constraints.txt -o lock.txt pyproject.toml

lowest: # the lowest versions that pyproject.toml allows, in an environment of their own, and tests that use each of them
	$(PYTHON) -m venv build/lowest
	build/lowest/bin/pip install --quiet -c constraints.txt torch uv
	build/lowest/bin/uv pip install --quiet --python build/lowest -c constraints.txt --resolution lowest-direct -e '.[dev]'
	OMP_NUM_THREADS=1 build/lowest/bin/pytest -n 2 -W default -m "not slow" tests/credit/test_losses.py tests/rewards/test_bleu.py \
		tests/search tests/models/test_huggingface.py tests/algorithms/test_erac.py tests/training/test_weights.py \
		tests/training/test_boards.py tests/data/test_text.py tests/data/test_images.py tests/results/test_significance.py \
		tests/inspect/test_app.py tests/test_api.py tests/test_given.py

clean:
	rm -rf .venv build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/site
