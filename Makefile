# Two commands: `make check` (the core and the command line, then their check) and `make test` (everything, then the tests).
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

unexport PYTHONDONTWRITEBYTECODE  # else each of the many processes of the tests compiles every module anew

.PHONY: check prove test thorough matrix lint format stubs figures docs bench clean

check: .venv/core
	$(BIN)/specgrad check

prove: .venv/full
	$(BIN)/specgrad prove --budget 20

test: .venv/full
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

thorough: .venv/full  # the same tests with several times the examples, and every kernel for every target
	SPECGRAD_TESTS=thorough $(BIN)/python -m pytest --numprocesses auto --dist worksteal

matrix:  # every Python that is found, oldest and newest dependencies, each extra alone; words choose cells: make matrix CELLS="3.12 tests"
	$(PYTHON) .ci/matrix.py $(CELLS)

lint: .venv/full
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/full
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

stubs: .venv/core
	$(BIN)/python -c "from specgrad.ranked import stub; print(stub(), end='')" > src/specgrad/ranked.pyi

docs: .venv/full
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

figures: .venv/core
	$(BIN)/python benchmarks/figures.py

bench: .venv/full
	$(BIN)/python benchmarks/reference.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/core: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[cli]'
	touch $@

.venv/full: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[test]'
	touch $@ .venv/core

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
