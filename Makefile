# Two commands do everything on a machine with Python >= 3.11 and no GPU:
#   make compare   set up, simulate, and print simulated beside measured silicon
#   make test      set up, check the style and pass the tests
# and four for who works on it:
#   make check     lint, format, types and the build of the pages, as continuous integration does before the tests
#   make docs      the pages under docs/ as a site, in site/
#   make bench     how fast it is here
#   make nightly   tonight's share of the tests that are too long for every day
#   make validation   what validation recorded with an older source, anew, with intervals and pages (MINUTES of processor time)
# The virtual environment is built once and again whenever pyproject.toml changes.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python3.14; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.gpusim-ready
PIP := $(BIN)/python -m pip --disable-pip-version-check
IMPORTS := 'import gpusim.commands as all, importlib, pkgutil; \
	[importlib.import_module(each.name) for each in pkgutil.iter_modules(all.__path__, "gpusim.commands.")]'
# Processes that share out the test files: one a core. WORKERS=0 keeps all in one, for a debugger.
WORKERS ?= auto

.PHONY: compare test nightly validation check types pages docs bench setup clean

setup: $(READY)

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer on PATH; set PYTHON=/path/to/python3" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (once)" >&2
	@# uv, itself installed by pip, takes a sixth of pip's time for it. It does not read pip's settings: where these name an
	@# index, or none, and where uv cannot be had or fails, pip installs.
	@if $(PIP) config list 2>/dev/null | grep -qE '\.(index-url|no-index)='; then false; else \
	  $(PIP) install --quiet uv && $(BIN)/python -m uv pip install --quiet --python $(BIN)/python --editable '.[test]'; \
	fi || $(PIP) install --quiet --editable '.[test]'
	@# Byte code, also for a shell that lets Python write none (PYTHONDONTWRITEBYTECODE): half a second of each command. Of
	@# other packages, of which uv compiles none, that of the modules that commands import.
	@$(BIN)/python -m compileall -q -j 0 gpusim kernels workloads tools
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -c $(IMPORTS) >/dev/null 2>&1 || true
	@touch $@

compare: $(READY)
	$(BIN)/gpusim compare --gpu a100_80gb --gpu gh200 --gpu h200 --against published

# What the types of the public API are to a user's script, and the pages as a site.
CHECKED := tests/test_typing.py tests/test_docs.py::test_the_documentation_builds_strictly
LINT := $(BIN)/ruff check --quiet .
FORMAT := $(BIN)/ruff format --quiet --check .
# Node's collector of young objects wakes less often with more room for them: an eighth of the time.
TYPES := PYRIGHT_PYTHON_IGNORE_WARNINGS=1 NODE_OPTIONS="--max-semi-space-size=64 $$NODE_OPTIONS" $(BIN)/pyright --pythonpath $(BIN)/python

# A file's tests go to one worker, which has what they share; by scope, a name with :: in it would be taken for a file of its own.
# Types and the build of the pages take as long as fifty tests: they are `make check`'s alone, which continuous integration runs first.
# The tests start some hundred processes: one that may keep no byte code compiles gpusim's own modules each time.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(READY)
	$(LINT)
	$(FORMAT)
	$(BIN)/python -m pytest -q -n $(WORKERS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder

# Nights over which the nightly tests are shared out: one is to take less than eight hours on two cores.
NIGHTS ?= 2

nightly: export PYTHONDONTWRITEBYTECODE :=
nightly: $(READY)
	$(BIN)/python -m pytest -q -m nightly --nights $(NIGHTS) -n $(WORKERS) --maxprocesses 8 --dist load

# Processor time that recording may take: the cheapest recordings first.
MINUTES ?= 60

validation: $(READY)
	$(BIN)/python tools/record_validation.py --run --minutes $(MINUTES)

# Types keep one core busy, and so do the pages: side by side, they take the longer one's time.
check: $(READY)
	$(LINT)
	$(FORMAT)
	@$(MAKE) --no-print-directory -j 2 types pages

types: $(READY)
	$(TYPES)

pages: $(READY)
	$(BIN)/python -m pytest -q -p no:xdist -m nightly $(CHECKED)

docs: $(READY)
	for tool in tools/write_*.py; do $(BIN)/python $$tool || exit 1; done
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(READY)
	$(BIN)/python tools/bench.py

clean:
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .hypothesis
