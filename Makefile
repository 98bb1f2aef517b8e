# `make demo` and `make test` do the whole set-up on a fresh machine; run again, they start at once.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

# Made anew each time, so the demo always shows what the code does now.
.PHONY: demo test lint check docs site pictures results format mutants fuzz clean
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

$(STAMP): pyproject.toml constraints.txt
	@echo "Installing into .venv, once: about two minutes."
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/site
