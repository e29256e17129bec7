# make run: gate the example patch.  make test: lint and every test.  Both set everything up first.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
# setup.sh puts Debian's Rust there where the one on PATH is too old.
export PATH := $(CURDIR)/.cache/bin:$(PATH)
# cargo builds pyo3 for the same interpreter as maturin does.
export PYO3_PYTHON := $(CURDIR)/.venv/bin/python
# Empty: compiled modules are kept. Tests start hundreds of processes that import the same ones.
export PYTHONDONTWRITEBYTECODE :=

BIN := .venv/bin
EXAMPLE := examples/patches/ufs-submission-cost.patch
PATCH ?= $(EXAMPLE)

.PHONY: help run check test test-long test-lowest coverage docs screenshots bench bench-gate bench-lab bench-pipeline lint setup dut dist release lab lab-down clean

help:
	@echo 'make run [PATCH=FILE]  gate a kernel patch (default: $(EXAMPLE))'
	@echo 'make check             lint, and the quick tests: no QEMU, no root; some minutes'
	@echo 'make test              lint and every test'
	@echo 'make test-long         the tests that take longer, in addition'
	@echo 'make test-lowest       the quick tests, with the lowest versions of our dependencies'
	@echo 'make lint              lint only'
	@echo 'make coverage          which lines of iotoll the quick tests run'
	@echo 'make docs              docs/ as a site in target/site; checks every link'
	@echo 'make screenshots       the pictures of docs/, again, from a stored run'
	@echo 'make bench [TRACE=F]   how fast the analyser is, beside its peers'
	@echo 'make bench-gate        how long a verdict takes here'
	@echo 'make bench-lab         100 jobs over eight boards of a real LAVA'
	@echo 'make bench-pipeline    how long a merge request'"'"'s pipeline takes here'
	@echo 'make dist              wheels for x86-64 and arm64, and the commands for boards, in dist/'
	@echo 'make release VERSION=V every check, and the tag of a release (CONTRIBUTING.md)'
	@echo 'make dut               the static command for boards, for arm64 and x86-64'
	@echo 'make lab               a whole LAVA on this machine, with its boards; make lab-down ends it'
	@echo 'make setup             set up what make test needs'
	@echo 'make clean             remove what was built here; kernels stay in the cache'

# The example makes UFS submission costlier on purpose: its expected verdict is `regression` (exit
# code 1), and anything else is a failure here. Another PATCH ends with its own verdict's code.
GATE := $(BIN)/iotoll gate --candidate $(PATCH) $(if $(filter $(EXAMPLE),$(PATCH)),--out runs/example)

run:
	@tools/setup.sh run $(GATE) --until build
ifeq ($(PATCH),$(EXAMPLE))
	@status=0; $(GATE) || status=$$?; \
	[ $$status = 1 ] && grep -Eq '"exit_code": ?1\b' runs/example/verdict.json || \
		{ echo "make run: expected the verdict 'regression' (1), got $$status"; exit 1; }; \
	echo "This patch adds work on purpose: 'regression' is the right verdict."
else
	@$(GATE)
endif

# Needs neither QEMU nor root; a file of tests stays in one process. Three, as many tests wait: two took 1.18 times as long.
QUICK := tests/unit tests/golden tests/trace tests/gitlab
PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder
# Their files (0.7 GB) lie in memory where there is enough, as the tests wait for a slow disk; those of
# a run that failed stay.
MEMORY := $(shell awk '/MemAvailable/ && $$2 > 6000000 {found = 1} END {print found ? "/dev/shm" : "/tmp"}' /proc/meminfo)
define quickly
	base=$$(mktemp -d $(MEMORY)/iotoll-tests-XXXXXX); \
	$(1) -m pytest --basetemp=$$base $(PARALLEL) $(2); \
	rm -rf $$base
endef
# More processes than CPUs: they wait for most of their time, for a lab or for a board's idling.
BOARDS := -n 5 --dist loadfile --no-loadscope-reorder

check: lint
	$(call quickly,$(BIN)/python,-q -m 'not slow' $(QUICK))

# Two runs, so that what is quick fails first. A file stays in one process: its tests share what they
# built. tests/conftest.py has the order in which files begin. Random tests take the same inputs in
# each run, as hypothesis does with CI=true; `make test-long` tries others, and more.
test: lint dut
	PROPTEST_RNG_SEED=1 cargo test --workspace --locked
	$(call quickly,$(BIN)/python,$(QUICK))
	$(BIN)/pytest -v $(BOARDS) $(addprefix --ignore=,$(QUICK))

test-long: lint dist
	@tools/setup.sh long
	PROPTEST_CASES=5000 cargo test --workspace --locked
	IOTOLL_TEST_LONG=1 $(BIN)/pytest -m long $(QUICK)
	IOTOLL_TEST_LONG=1 $(BIN)/pytest tests/vm tests/lab

# The quick tests with the lowest versions that both pyproject.toml allow; the test tools are as ever, but
# for what they ask of these.
LOWEST := target/lowest
test-lowest: setup
	uv=$$(ls -d $(CURDIR)/.cache/uv-*/bin/uv | tail -n 1); \
	$$uv venv --quiet --clear $(LOWEST); \
	$$uv pip compile --quiet --resolution lowest-direct --extra allure --extra history pyproject.toml \
		lab/pyproject.toml --no-emit-package iotoll --output-file $(LOWEST)/requirements.txt; \
	$$uv pip install --quiet --python $(LOWEST)/bin/python -r $(LOWEST)/requirements.txt \
		hypothesis jsonschema-rs pytest-timeout pytest-xdist xmlschema; \
	$$uv pip install --quiet --python $(LOWEST)/bin/python --no-deps --editable . --editable lab
	$(call quickly,$(LOWEST)/bin/python,-q -m 'not slow' tests/unit tests/golden)

coverage: setup
	$(BIN)/pytest -q $(PARALLEL) --cov --cov-report=term --cov-report=html:target/coverage $(QUICK)

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

screenshots: setup
	$(BIN)/python tools/docs/screenshots.py

# The analyser and its peers on one trace: TRACE, or a long one made from a fixture; see docs/speed.md.
bench: export CARGO_PROFILE_RELEASE_DEBUG := line-tables-only
bench:
	@tools/setup.sh bench
	cargo build --release --locked --workspace --bins
	cargo build --release --locked -p iorecord --examples
	$(BIN)/python tools/bench $(if $(TRACE),--trace '$(TRACE)') $(if $(ROUNDS),--rounds $(ROUNDS))

# Wall-clock times of a verdict, warm.
bench-gate: setup
	$(BIN)/python tools/bench/gate.py

# 100 LAVA jobs by one submitter: nothing lost, nothing doubled, memory flat; see docs/lava.md.
bench-lab: dut
	$(BIN)/python tools/bench/lab.py

# From a patch to the note in its merge request, warm.
bench-pipeline: setup
	$(BIN)/python tools/bench/pipeline.py

# Side by side, each with its output in one piece.
LINTS := lint-python lint-packages lint-words lint-types lint-rust
.PHONY: $(LINTS)

lint: setup
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target --keep-going $(LINTS)

lint-python:
	$(BIN)/ruff check
	$(BIN)/ruff format --check

lint-packages:
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/lint/packages.py --check
	$(BIN)/python tools/release.py check

lint-words:
	$(BIN)/python tools/lint/words.py
	$(BIN)/python tools/lint/pages.py
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md Makefile docs src/iotoll lab pipelines lava-jobs tools tests

lint-types:
	$(BIN)/mypy

lint-rust:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

setup:
	@tools/setup.sh test

# target/dut/{arm64,x86_64}/iotoll-dut; see docs/dut.md.
dut: setup
	@tools/build-dut.sh

# What is handed out: wheels for x86-64 and arm64, and the static commands for boards.
dist: dut
	@tools/dist.sh

# make release VERSION=X.Y.Z: everything that CONTRIBUTING.md asks for, and the tag.
release: test dist
	$(BIN)/python tools/release.py tag $(VERSION)

# A real LAVA server and worker, in the background; see docs/lava.md. What boards run is built meanwhile.
lab:
	@tools/setup.sh lab
	@tools/build-dut.sh & dut=$$!; status=0; $(BIN)/iotoll lab up || status=$$?; wait $$dut; exit $$status

lab-down:
	$(BIN)/iotoll lab down

clean:
	rm -rf .venv .cache target dist runs src/iotoll/*.so .pytest_cache .mypy_cache .ruff_cache
