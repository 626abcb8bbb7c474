# Every target sets itself up on a fresh machine: it needs Python 3.11 and, for the integration
# tests, Go, and Docker or Java with Maven.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Built binaries live outside the tree, keyed by a hash of their sources.
export CLIQUELOG_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/cliquelog

.PHONY: help setup demo test explore explore-today test-integration check format findings bench controlplane broker browser lock clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 20

setup: $(READY) ## create the virtual environment

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $@

demo: setup ## the main job on this machine: form a domain of 5,040 nodes, replay the log
	$(BIN)/cliquelog simulate

test: setup ## fast tests; needs no service
	$(BIN)/pytest -m "not integration"

explore: setup ## hunt for faults in a fixed range of seeds; the command is in simulation/README.md
	$(BIN)/python -m simulation.explore --seeds 0..499

# A range that moves with the date (UTC); give DAY=20261129 to repeat another day's.
DAY ?= $(shell date -u +%Y%m%d)
explore-today: setup ## the same in a range that is another every day; the command to repeat it is printed
	$(BIN)/python -m simulation.explore --seeds $(DAY)000..$(DAY)249

controlplane: setup ## build the control plane for the integration tests (minutes when cold, then cached)
	$(BIN)/python -m tests.integration.controlplane.build

broker: setup ## fetch the Kafka broker for the integration tests (seconds, then cached)
	$(BIN)/python -m tests.integration.broker.build

browser: setup ## install Chromium for the tests of the report, if there is no browser (Debian, as root)
	$(BIN)/python -m tests.integration.browser

test-integration: controlplane broker browser ## tests on a real API server, scheduler, DaemonSet controller, Kafka broker and browser
	$(BIN)/pytest -m integration

check: setup ## format, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: setup ## rewrite the sources into the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

findings: setup ## write the table of docs/findings.md anew from the rules of the audit
	$(BIN)/python -m controller.history.findings_document docs/findings.md

bench: setup broker ## measure; prints its figures with the command and the machine
	$(BIN)/python -m bench

lock: setup ## pin the dependencies anew
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --all-extras --generate-hashes --no-emit-index-url --no-header -q --python-version 3.11 -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra faust --generate-hashes --no-annotate --no-emit-index-url --no-header -q --python-version 3.11 -c requirements.lock -o requirements-run.lock

clean: ## remove what the targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
