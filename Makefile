# make up     run everything on this machine (PORT=8080 is the gateway's port)
# make test   all tests; installs what is missing (on Debian as root also Postgres 15 with its extensions)
# make lint   style, types, SQL, Dockerfiles
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: help venv up test lint fmt lock clean debian-packages

PORT ?= 8080
BIN := .venv/bin
STAMP := .venv/.installed
# The first Python that is new enough; a pyenv shim may exist and still not run.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

venv: $(STAMP)

$(STAMP): requirements/dev.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: install it, or give PYTHON=/path/to/python3"; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv .venv || { rm -rf .venv; \
	  echo "$(PYTHON) cannot make a virtual environment (on Debian and Ubuntu: apt-get install python3-venv)"; exit 1; }
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

up: $(STAMP)
	@exec $(BIN)/pgbudget up --port $(PORT)

# What Debian packages for its Postgres 15. Elsewhere, or without root, the tests run on what is there.
DEBIAN := postgresql-15 postgresql-15-cron postgresql-15-pgtap postgresql-15-plpgsql-check
debian-packages:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! dpkg -s $(DEBIAN) >/dev/null 2>&1; then \
	  apt-get update -q; \
	  if apt-cache show $(DEBIAN) >/dev/null 2>&1; then \
	    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $(DEBIAN); \
	  fi; \
	fi

# ARGS="tests/sql -k clock" runs some of them.
test: $(STAMP) debian-packages
	$(BIN)/python -m pytest $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/sqlfluff lint --disable-progress-bar -q sql migrations
	@if $(BIN)/hadolint --version >/dev/null 2>&1; then $(BIN)/hadolint docker/Dockerfile.*; \
	  else echo "hadolint has no build for this platform: Dockerfiles not checked"; fi
	$(BIN)/python -m compileall -q src

fmt: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Newest versions that fit pyproject.toml: make lock UPGRADE=--upgrade
COMPILE := .venv/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-annotate --no-header $(UPGRADE)
lock: $(STAMP)
	test -x .venv/lock/bin/uv || { $(BIN)/python -m venv .venv/lock && .venv/lock/bin/pip install -q uv; }
	$(COMPILE) pyproject.toml -o requirements/gateway.txt
	$(COMPILE) --group build -o requirements/build.txt
	$(COMPILE) pyproject.toml --group dev -o requirements/dev.txt

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
