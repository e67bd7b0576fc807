# The two commands: `make demo` and `make test`. `make help` lists all of them.
VENV ?= .venv
DEMO_VENV ?= .venv-demo
RELEASE_VENV ?= .venv-release
# make fuzz: seconds for each target, and which of them (all).
SECONDS ?= 60
TARGETS ?=
# make night: so many bugs, drawn by that seed; ARGUMENTS are more options of reprokit run.
SAMPLE ?= 6:spring
# make unit: half as many workers again as processors, since some tests wait for sockets and processes.
UNIT_WORKERS ?= $(shell echo $$(($$(nproc) * 3 / 2)))
# make test: what it runs beside the tests of a change; `make test-all` sets it to "nightly".
NIGHTLY ?=
# make gpu-wheels: the Python of the machine that has the GPU.
GPU_MACHINE_PYTHON ?= 3.12
# A dockerd that was started here: the demo's goes on running, the tests' is stopped.
DEMO_ENGINE := $(CURDIR)/.engine-demo.pid
TEST_ENGINE := $(CURDIR)/.engine-test.pid
# A folder of wheels or a mirror that the host's pip is configured with is used as it is.
PIP := $(VENV)/bin/pip --disable-pip-version-check
DEMO_PIP := $(DEMO_VENV)/bin/pip --disable-pip-version-check

# Tests start hundreds of Pythons, each of which would compile all modules again; so would pytest, its tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all delays help venv lint types style unit system integration faults gpu gpu-wheels browser bench night fuzz dist sbom audit docs docs-generated lock data data-renew clean

demo: ## Install reprokit in a virtual environment, get an engine if none answers, run a first case
	@.ci/venv $(DEMO_VENV)
	@echo "installing reprokit in $(DEMO_VENV)"
	@$(DEMO_PIP) install --quiet .
	@.ci/engine ensure $(DEMO_ENGINE)
	@echo "reprokit run cases/ptxas_unknown_arch.yaml"
	@$$(.ci/engine prefix)$(DEMO_VENV)/bin/reprokit run cases/ptxas_unknown_arch.yaml
	@if [ -s $(DEMO_ENGINE) ]; then echo "dockerd was started for this and goes on running; stop it with: .ci/engine stop $(DEMO_ENGINE)"; fi

test: venv ## Everything that must pass on a change: lint, types, unit tests, a selection on the real engines
	@$(MAKE) --no-print-directory -j2 -O types style
	@.ci/engine ensure $(TEST_ENGINE)
	@trap '.ci/engine stop $(TEST_ENGINE)' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; .ci/tests $(VENV)/bin/python $(NIGHTLY)

test-all: ## The same with what is marked nightly: more systems, Pythons, orders and cases; an hour or two
	@$(MAKE) --no-print-directory test NIGHTLY=nightly

delays: ## The tests with random delays where threads and processes start and end: one that depends on a moment fails; an hour
	@PYTHONPATH=$(CURDIR)/tests/delays $(MAKE) --no-print-directory test

help: ## Print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-16s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

venv: $(VENV)/.ready ## Make the virtual environment of the development, with the locked dependencies

$(VENV)/.ready: requirements-dev.txt pyproject.toml
	@.ci/venv $(VENV)
	@echo "installing the locked development dependencies in $(VENV)"
	@$(PIP) install --quiet --require-hashes -r requirements-dev.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

lint: types style ## Style, types, words, budgets, which room imports from which, and whether every test can be imported
	$(VENV)/bin/python -m pytest -q -n 0 tests/unit/test_words.py tests/unit/test_budgets.py
	@echo "importing every test"
	@found=$$($(VENV)/bin/python -m pytest -q -n 0 --collect-only tests 2>&1) || { echo "$$found" | grep -v '::'; exit 1; }

types: venv ## mypy
	$(VENV)/bin/mypy

style: venv ## ruff, and which room imports from which
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports --no-logo --no-cache

# test_mcp.py has only system tests, and what it imports takes each worker more than half a second.
unit: venv ## The fast tests: no engine, and nothing that starts whole programs
	$(VENV)/bin/python -m pytest tests/unit --ignore=tests/unit/cli/test_mcp.py -n $(UNIT_WORKERS) --dist worksteal --hypothesis-profile=quick -m "not integration and not system and not nightly"

system: venv ## What starts whole programs, or takes the sizes of real life; no engine
	$(VENV)/bin/python -m pytest -n auto --dist worksteal -m "system and not nightly"

integration: venv ## The tests on the real engine, and in a browser
	$(VENV)/bin/python -m pytest -m "integration and not nightly"

faults: venv ## What `make test` has of kills, engines that go away, full disks and damaged stores; the long form is a benchmark, proof
	$(VENV)/bin/python -m pytest -m "not nightly" tests/unit/run/test_fault_schedules.py tests/unit/store/test_trouble.py \
		tests/integration/test_engine_lost.py tests/integration/test_interrupts.py tests/integration/test_store.py tests/integration/test_gc.py

gpu: venv ## What an NVIDIA driver says and does: on the fake library and, where there is a GPU, on the real one
	$(VENV)/bin/python -m pytest tests/gpu -rs

gpu-wheels: venv ## What tests/gpu/on_machine.sh needs on a machine without network, for its Python GPU_MACHINE_PYTHON=3.12
	.ci/gpu-wheels $(VENV)/bin/python $(GPU_MACHINE_PYTHON) build/gpu-wheels

browser: venv ## The tests of the report's pages in a Chromium; no engine
	$(VENV)/bin/python -m pytest -m browser

bench: venv ## Figures, as ratios measured in one run
	$(VENV)/bin/python -m tests.bench

night: venv ## All cases beside SAMPLE=6:spring bugs of a clone of BugsInPy at DATA, each with its fix, and the report in site/
	$(VENV)/bin/reprokit new --data-set bugsinpy "$(DATA)" --sample "$(SAMPLE)" -o build/sample --force
	status=0; $(VENV)/bin/reprokit run cases build/sample --fix --store build/night $(ARGUMENTS) || status=$$?; \
		$(VENV)/bin/reprokit report -o site --store build/night && exit $$status

fuzz: venv ## Fuzz what reads untrusted texts, SECONDS=60 for each of TARGETS; findings are in build/fuzz/
	$(VENV)/bin/python -m tests.fuzz --seconds $(SECONDS) $(TARGETS)

dist: venv ## Build the sdist and the wheel of the last commit in dist/; the same commit gives the same bytes
	.ci/dist $(VENV)/bin/python dist

sbom: $(RELEASE_VENV)/.ready ## Write dist/reprokit.cdx.json: the locked dependencies in CycloneDX
	.ci/sbom $(RELEASE_VENV)/bin/cyclonedx-py dist/reprokit.cdx.json

audit: $(RELEASE_VENV)/.ready ## Ask for known vulnerabilities of the locked dependencies (needs the network)
	$(RELEASE_VENV)/bin/pip-audit --progress-spinner=off --disable-pip --require-hashes \
		-r requirements.txt -r requirements-dev.txt -r requirements-release.txt

$(RELEASE_VENV)/.ready: requirements-release.txt
	@.ci/venv $(RELEASE_VENV)
	@$(RELEASE_VENV)/bin/pip --disable-pip-version-check install --quiet --require-hashes -r requirements-release.txt
	@touch $@

docs: venv ## Build the documentation in site/, with warnings as errors
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet --strict

docs-generated: venv ## Write docs/format.md and docs/images/report.png again (the picture needs an engine and a Chromium)
	$(VENV)/bin/python -m docs.scripts.format_reference
	$(VENV)/bin/python -m docs.scripts.report_picture

lock: ## Renew the locked dependencies: of development, .ci/install and releases (needs uv)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.10 --generate-hashes --upgrade \
		--no-emit-index-url --no-emit-find-links --no-header --no-annotate -o requirements-dev.txt
	echo 'hatchling>=1.18' | uv pip compile pyproject.toml - --extra compare --universal --python-version 3.10 --generate-hashes \
		--upgrade --no-emit-index-url --no-emit-find-links --no-header --no-annotate -o requirements.txt
	printf 'cyclonedx-bom>=7.0\npip-audit>=2.9\n' | uv pip compile - --universal --python-version 3.10 --generate-hashes \
		--upgrade --no-emit-index-url --no-emit-find-links --no-header --no-annotate -o requirements-release.txt

data: venv ## List what package indexes have and the compatibility data lacks; fails if there is any (minutes)
	@$(VENV)/bin/python -m docs.scripts.compatibility_tables

data-renew: venv ## Write the compatibility data that package indexes alone can answer (minutes)
	@$(PIP) install --quiet "remotezip>=0.12"
	@$(VENV)/bin/python -m docs.scripts.compatibility_tables --write

clean: ## Remove the virtual environments and what builds and tools leave
	rm -rf $(VENV) $(DEMO_VENV) $(RELEASE_VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
