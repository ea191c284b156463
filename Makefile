# Short names for Meson and the scripts in tools/. "make help" lists the targets.

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
TESTS ?=
JOBS ?= $(shell nproc)

# tools/deps installs Node.js there if the system has no version that is new enough.
export PATH := $(CURDIR)/tools/node/bin:$(PATH)

NINJA = tools/quiet ninja --quiet -j $(JOBS) -C
SETUP = tools/quiet meson setup

# The program ends at the first finding, a memory leak is a finding, and a huge allocation fails as it does
# without sanitizers.
ASAN_ENV = UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=detect_leaks=1:$\
allocator_may_return_null=1:strict_string_checks=1:detect_stack_use_after_return=1
# The crash tests fork while libuv's worker threads exist.
TSAN_ENV = TSAN_OPTIONS=suppressions=$(CURDIR)/tests/tsan.supp:halt_on_error=1:$\
allocator_may_return_null=1:second_deadlock_stack=1:die_after_fork=0

.PHONY: all run tour test bench lint format check-asan check-tsan check-fault check-crash \
        check-fresh fuzz install clean help deps-build deps-test deps-bench deps-lint deps-fuzz

all: deps-build build/build.ninja ## build build/quipu, build/libquipu.so and build/libquipu.a
	@$(NINJA) build products

run: all ## build, then serve ./data at http://127.0.0.1:7878, with tools that work in ./work
	@mkdir -p work && build/quipu serve --workspace work

tour: all ## build, then run the first section of docs/tour.md in ./data
	@tools/tour

test: deps-test build/.with-tests ## run every test; QUIPU_TEST_LONG=1 for the long forms
	@$(NINJA) build products tests
	@tools/run-tests.mjs --build build --jobs $(JOBS) --timeout 600

bench: deps-bench build/.with-bench ## run the benchmarks
	@$(NINJA) build products benchmarks
	@set -e; for b in $(patsubst bench/%.c,build/bench/%,$(wildcard bench/bench_*.c)); do $$b; done
	@if [ -x "$${QUIPU_CHROMIUM:-/usr/bin/chromium}" ] && [ -d node_modules/playwright-core ]; then \
	  node bench/web.mjs; else echo "bench: the web page is not measured: Chromium or playwright-core is missing"; fi
	@node bench/faces.mjs
	@node bench/postgres.mjs

lint: deps-lint all ## format, static analysis, layers, headers, symbols, contract
	@tools/lint

format: deps-lint ## rewrite the C files as .clang-format says
	@tools/lint --format

check-asan: deps-test build-asan/build.ninja ## every test (or TESTS) under ASan and UBSan
	@$(NINJA) build-asan products tests
	@$(ASAN_ENV) tools/run-tests.mjs --build build-asan --jobs $(JOBS) --timeout 1800 $(TESTS)

check-tsan: deps-test build-tsan/build.ninja ## every test but faults (or TESTS) under TSan
	@$(NINJA) build-tsan products tests
	@$(TSAN_ENV) tools/run-tests.mjs --build build-tsan --jobs $(JOBS) --timeout 1800 \
	  $(or $(TESTS),unit/ conformance/ crash/ e2e/serve_ fault/test_recover_threads)

check-fault: deps-test build/.with-tests ## the fault suite in its long form
	@$(NINJA) build products tests
	@QUIPU_TEST_LONG=1 tools/run-tests.mjs --build build --jobs $(JOBS) --timeout 3600 --suite fault

check-crash: deps-test build/.with-tests ## the crash suite in its long form
	@$(NINJA) build products tests
	@QUIPU_TEST_LONG=1 tools/run-tests.mjs --build build --jobs $(JOBS) --timeout 3600 --suite crash

check-fresh: ## "make", "make test" and "make run" in a new Debian 12; needs root and debootstrap
	@tools/deps fresh
	@tools/fresh-debian

fuzz: deps-fuzz build-fuzz/build.ninja ## run each fuzzer for FUZZ_SECONDS (60)
	@$(NINJA) build-fuzz fuzzers
	@FUZZ_SECONDS=$(FUZZ_SECONDS) JOBS=$(JOBS) tools/fuzz build-fuzz

install: all ## install under PREFIX (/usr/local); DESTDIR is put in front
	@$(SETUP) --reconfigure build -Dprefix=$(abspath $(PREFIX))
	@$(NINJA) build products
	@DESTDIR=$(DESTDIR) meson install -C build --no-rebuild

clean: ## remove everything that was built
	rm -rf build build-asan build-tsan build-fuzz

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do \
	  printf '  make %-12s %s\n' "$$name" "$$text"; done

deps-build deps-test deps-bench deps-lint deps-fuzz: deps-%:
	@tools/deps $*

# Meson is configured once; after that ninja itself sees when a meson.build changed.
build/build.ninja: | deps-build
	@$(SETUP) build -Dprefix=$(abspath $(PREFIX))

# A plain "make" may have configured the build before cmocka or SQLite were installed.
build/.with-tests: | deps-test build/build.ninja
	@$(SETUP) --reconfigure build -Dtests=enabled
	@touch $@

build/.with-bench: | deps-bench build/build.ninja
	@$(SETUP) --reconfigure build -Dbench=enabled
	@touch $@

build-asan/build.ninja: | deps-test
	@$(SETUP) build-asan --buildtype=debug -Doptimization=1 -Dtests=enabled -Dbench=disabled \
	  -Db_sanitize=address,undefined -Db_lundef=false

build-tsan/build.ninja: | deps-test
	@$(SETUP) build-tsan --buildtype=debug -Doptimization=1 -Dtests=enabled -Dbench=disabled \
	  -Db_sanitize=thread -Db_lundef=false

build-fuzz/build.ninja: | deps-fuzz
	@CC=clang $(SETUP) build-fuzz --buildtype=debug -Doptimization=1 -Dtests=enabled \
	  -Dbench=disabled -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false
