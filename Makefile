# make help lists what there is. Needs Python 3.11+ and make; see CONTRIBUTING.md.
# The first Python that is new enough; a shim may exist and still not run.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
VENV := .venv
BIN := $(VENV)/bin
UP_STAMP := $(VENV)/.installed-up
STAMP := $(VENV)/.installed
SDKS := tests/clients/node_modules/.package-lock.json
BENCH_STAMP := $(VENV)/.installed-bench
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LITELLM := $(VENV)/litellm/bin/litellm
PORT ?= 8080
# Tests run side by side, each worker with a server of its own; WORKERS= runs them in one process. One more than two cores
# have: some of them wait.
WORKERS := -n 3 --dist worksteal

.PHONY: up help test test-18 test-pooled lint fmt lock docs venv clean debian redis bench-sql bench-http bench-growth

up: $(UP_STAMP) ## run everything here, on port 8080 or PORT=9000; Ctrl-C stops it
	@PORT=$(PORT) exec $(BIN)/pgbudget up

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

test: debian $(SDKS) ## all tests; some of them with PYTEST_ARGS="-k reserve"
	PGBUDGET_REQUIRE_ALL=$(if $(CI),1,) $(BIN)/python -m pytest $(WORKERS) $(PYTEST_ARGS)

test-18: $(SDKS) ## the Python tests on the embedded Postgres 18
	PGBUDGET_TEST_SERVER=18 $(BIN)/python -m pytest $(WORKERS) $(PYTEST_ARGS)

test-pooled: debian $(SDKS) ## the tests of calls, with every gateway behind PgBouncer in transaction mode
	PGBUDGET_TEST_POOLER=1 $(BIN)/python -m pytest $(WORKERS) tests/proxy $(PYTEST_ARGS)

lint: debian $(STAMP) ## ruff, mypy, sqlfluff, hadolint, and the tests of documents and functions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/sqlfluff lint --processes 2 --disable-progress-bar sql migrations pgtap
	$(BIN)/hadolint docker/Dockerfile.*
	$(BIN)/python -m pytest -q tests/lint

fmt: $(STAMP) ## format the Python
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

venv: $(STAMP) ## only make .venv, with what tests and lint need

$(UP_STAMP): requirements/up.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "pgbudget needs Python 3.11 or newer: install it, or make PYTHON=/path/to/python3"; exit 1; }
	@test -x $(BIN)/pip || "$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make a virtual environment (on Debian and Ubuntu: apt-get install python3-venv)"; exit 1; }
	@echo "pgbudget: installing what it runs on into $(VENV), this once: some 50 packages, half a minute or so"
	@$(INSTALL) --require-hashes -r requirements/up.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# The same versions and more; so what runs stays as it was.
$(STAMP): requirements/dev.txt $(UP_STAMP)
	@echo "pgbudget: installing what tests and lint need into $(VENV), this once: some 90 packages more, two minutes or so"
	@$(INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

# The Node SDKs that tests call the gateway with; Node itself comes from PyPI with the rest.
$(SDKS): tests/clients/package-lock.json $(STAMP)
	@PATH="$(abspath $(BIN)):$$PATH" npm ci --prefix tests/clients --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@

# The lock: exact versions with hashes, without the address of any registry. UPGRADE=--upgrade takes newer versions.
COMPILE := $(VENV)/lock/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-header --no-annotate $(UPGRADE)
lock: $(STAMP) ## write the lock files anew; UPGRADE=--upgrade takes newer versions
	@test -x $(VENV)/lock/bin/uv || { $(BIN)/python -m venv $(VENV)/lock && $(VENV)/lock/bin/pip install --quiet uv; }
	$(COMPILE) pyproject.toml -o requirements/gateway.txt
	$(COMPILE) pyproject.toml --extra tokenizer -o requirements/tokenizer.txt
	$(COMPILE) --group build -o requirements/build.txt
	$(COMPILE) pyproject.toml --group dev -o requirements/dev.txt
	$(COMPILE) pyproject.toml --extra embedded --extra prices --group build -c requirements/dev.txt -o requirements/up.txt
	PATH="$(abspath $(BIN)):$$PATH" npm install --prefix tests/clients --package-lock-only --omit-lockfile-registry-resolved \
	  --no-audit --no-fund --loglevel error
	$(COMPILE) pyproject.toml --group dev --group bench -o requirements/bench.txt

# Debian's Postgres 15 with pg_cron, pgTAP and plpgsql_check, and its PgBouncer: installed when root asks on Debian, else what
# is there is used.
PACKAGES := postgresql-15 postgresql-15-cron postgresql-15-pgtap postgresql-15-plpgsql-check \
  libtap-parser-sourcehandler-pgtap-perl pgbouncer
debian:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! dpkg -s $(PACKAGES) >/dev/null 2>&1; then \
	  apt-get update -qq; \
	  if apt-cache show $(PACKAGES) >/dev/null 2>&1; then \
	    quiet=/etc/postgresql-common/createcluster.d/pgbudget.conf; mkdir -p "$${quiet%/*}"; \
	    trap 'rm -f "$$quiet"' EXIT; echo 'create_main_cluster = false' > "$$quiet"; \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(PACKAGES) >/dev/null; \
	  fi; \
	fi

bench-sql: debian redis $(BENCH_STAMP) ## reserve and settle against other ways, 20 minutes; BENCH_ARGS=--quick: a trial
	$(BIN)/python -m bench.sql $(BENCH_ARGS)

bench-http: debian redis $(BENCH_STAMP) $(LITELLM) ## calls through the gateway and its peers, 10 minutes; BENCH_ARGS=--quick: a trial
	$(BIN)/python -m bench.calls $(BENCH_ARGS)

bench-growth: debian $(BENCH_STAMP) ## what rows, keys and churn do to a reserve, 15 minutes; BENCH_ARGS=--quick: a trial
	$(BIN)/python -m bench.growth $(BENCH_ARGS)

$(BENCH_STAMP): requirements/bench.txt $(STAMP)
	$(INSTALL) --require-hashes -r requirements/bench.txt
	@touch $@

# A peer that wants other versions of what we use. Where it cannot be had, it is measured without.
$(LITELLM):
	-@$(BIN)/python -m venv $(VENV)/litellm && \
	  $(VENV)/litellm/bin/python -m pip install --quiet --disable-pip-version-check 'litellm[proxy]==1.108.7'

redis:
	@command -v redis-server >/dev/null || [ "$$(id -u)" != 0 ] || \
	  { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server >/dev/null; }

clean: ## delete .venv and what was built; the data in .pgbudget stays
	rm -rf $(VENV) tests/clients/node_modules build dist .mypy_cache .ruff_cache .hypothesis

docs: $(STAMP) ## write the pages that are made by tests: docs/api.md, company.out, stated_charges.md, wire.md
	PGBUDGET_WRITE_DOCS=1 $(BIN)/python -m pytest -q tests/lint/test_docs.py tests/prices/test_stated.py tests/wire/test_table.py
