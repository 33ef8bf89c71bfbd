# parqlake: everything a developer does, by name. `make help` lists it.
#
# Needs: make, sh and Python 3.11 or newer. Everything else goes into .venv, inside this folder.

PYTHON ?= python3
JOBS ?= auto
SCALE ?= smoke

BIN := .venv/bin
RUN := $(BIN)/python
STAMP := .venv/.installed
BENCHMARKS := planning append spark_write spark_read datasets merge spark_merge compaction clustering explorer reads pipeline

# An environment that was made in another folder (a moved or copied checkout) is made again.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo tour test test-all lint types format docs bench constraints hooks clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## create .venv and install parqlake with all extras and the developers' tools

$(STAMP): pyproject.toml constraints.txt scripts/setup.sh
	@sh scripts/setup.sh "$(PYTHON)"

demo: $(STAMP) ## the main job: a Spark pipeline on a lake in ./demo-lake, with a report
	$(RUN) examples/demo.py

tour: $(STAMP) ## the same lake without Java: races and kills writers in ./tour-lake
	$(RUN) examples/tour.py

test: lint types ## lint, types, and all tests but the slow ones; catalogs and stores take turns
	@sh scripts/chromium.sh --quiet
	$(RUN) -m pytest tests -m "not slow" -n $(JOBS) --dist loadgroup -q $(ARGS)

test-all: lint types ## lint, types, and every test on every catalog and store
	@sh scripts/chromium.sh --quiet
	$(RUN) -m pytest tests --matrix star --hypothesis-profile thorough -n $(JOBS) --dist loadgroup -q $(ARGS)

lint: $(STAMP) ## ruff (rules and format) and the import rules of the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(STAMP) ## mypy --strict
	$(RUN) -m mypy

format: $(STAMP) ## format the code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP) ## build the documentation into ./site
	$(BIN)/zensical build --clean --strict
	@rm -rf .cache

bench: $(STAMP) ## run the benchmarks at smoke size; SCALE=full for the real one
	@set -e; for name in $(BENCHMARKS); do \
	  echo "== benchmarks/$$name.py ($(SCALE))"; \
	  $(RUN) benchmarks/$$name.py $(if $(filter full,$(SCALE)),,--smoke); \
	done

constraints: $(STAMP) ## renew constraints.txt: the newest versions that pyproject.toml allows
	sh scripts/constraints.sh --upgrade

hooks: $(STAMP) ## run the checks before each git commit
	$(BIN)/pre-commit install

clean: ## remove the environment, caches and everything built
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist site
	@for lake in demo-lake tour-lake; do [ ! -e $$lake/.parqlake-demo ] || rm -rf $$lake; done
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
