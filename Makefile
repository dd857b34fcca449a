# make up | test | lint | fmt | lock | clean. Needs Python 3.11+ and make; see CONTRIBUTING.md.
# The first Python that is new enough; a shim may exist and still not run.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PORT ?= 8080

.PHONY: docs up test test-18 lint fmt lock venv clean debian

up: $(STAMP)
	@PORT=$(PORT) exec $(BIN)/pgbudget up

# PYTEST_ARGS: more arguments for pytest, for example PYTEST_ARGS="-k reserve".
test: debian $(STAMP)
	PGBUDGET_REQUIRE_ALL=$(if $(CI),1,) $(BIN)/python -m pytest $(PYTEST_ARGS)

test-18: $(STAMP)
	PGBUDGET_TEST_SERVER=18 $(BIN)/python -m pytest $(PYTEST_ARGS)

lint: debian $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/sqlfluff lint --processes 2 --disable-progress-bar sql migrations pgtap
	$(BIN)/hadolint docker/Dockerfile.*
	$(BIN)/python -m pytest -q tests/lint

fmt: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

venv: $(STAMP)

$(STAMP): requirements/dev.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "pgbudget needs Python 3.11 or newer: install it, or make PYTHON=/path/to/python3"; exit 1; }
	@test -x $(BIN)/pip || "$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make a virtual environment (on Debian and Ubuntu: apt-get install python3-venv)"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

# The lock: exact versions with hashes, without the address of any registry. UPGRADE=--upgrade takes newer versions.
COMPILE := $(VENV)/lock/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-header --no-annotate $(UPGRADE)
lock: $(STAMP)
	@test -x $(VENV)/lock/bin/uv || { $(BIN)/python -m venv $(VENV)/lock && $(VENV)/lock/bin/pip install --quiet uv; }
	$(COMPILE) pyproject.toml -o requirements/gateway.txt
	$(COMPILE) --group build -o requirements/build.txt
	$(COMPILE) pyproject.toml --group dev -o requirements/dev.txt

# Debian's Postgres 15 with pg_cron, pgTAP and plpgsql_check: installed when root asks on Debian, else what is there is used.
PACKAGES := postgresql-15 postgresql-15-cron postgresql-15-pgtap postgresql-15-plpgsql-check libtap-parser-sourcehandler-pgtap-perl
debian:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! dpkg -s $(PACKAGES) >/dev/null 2>&1; then \
	  apt-get update -qq; \
	  if apt-cache show $(PACKAGES) >/dev/null 2>&1; then \
	    quiet=/etc/postgresql-common/createcluster.d/pgbudget.conf; mkdir -p "$${quiet%/*}"; \
	    trap 'rm -f "$$quiet"' EXIT; echo 'create_main_cluster = false' > "$$quiet"; \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(PACKAGES) >/dev/null; \
	  fi; \
	fi

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis

# The API reference, from the comments of the database.
docs: $(STAMP)
	PGBUDGET_WRITE_DOCS=1 $(BIN)/python -m pytest -q tests/lint/test_docs.py
