# `make run` serves the demo site; `make test` is what every change has to pass. The rest is for those who work on Saker.

SHELL := /bin/bash
CARGO ?= cargo
TARGET_DIR := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
# The workspace of bench, link, and load, built into the same target directory.
TOOLS := --manifest-path tools/Cargo.toml --target-dir "$(TARGET_DIR)"
ADDRESS ?= 127.0.0.1:8080
TLS_ADDRESS ?= 127.0.0.1:8443
BENCH ?=
LAB ?=
QUICK ?=
FUZZ_SECONDS ?= 600
SOAK_REQUESTS ?= 200000
FUZZ_TARGETS ?=

.PHONY: help run build release demo test test-fast soak formatting check tidy bench lab table fuzz docs site deb rpm image static arm64 dist packed packed-binary clean

help:
	@echo "make run     build Saker, make the demo site, serve it on http://$(ADDRESS)/ and https://$(TLS_ADDRESS)/"
	@echo "make test    formatting, lints, house rules, all tests"
	@echo "make test-fast   tests that need no Debian packages, in two minutes after a build"
	@echo "make check   formatting, lints, house rules"
	@echo "make release build Saker for what the lab's workloads run (profile-guided optimization): twice as long as a release build, and measured in between"
	@echo "make soak    SOAK_REQUESTS ($(SOAK_REQUESTS)) through the gateway, a tenth of them with a fault; what is left behind; the adversarial suite with as many targets"
	@echo "make bench   Saker beside nginx, lighttpd and h2o; BENCH='--quick --only small' passes options on"
	@echo "make lab     the published comparisons, under an hour, as a page: lab/index.html; QUICK=1 in five minutes; LAB='--only b3-' passes options on"
	@echo "make table   the README's table, from the last whole run of the lab"
	@echo "make fuzz    every fuzz target for FUZZ_SECONDS ($(FUZZ_SECONDS)); FUZZ_TARGETS='range target' for some"
	@echo "make docs    the reference pages"
	@echo "make site    the documentation as a site with a search (mdBook): $(TARGET_DIR)/site/docs"
	@echo "make deb     Debian packages of a release build: $(TARGET_DIR)/dist"
	@echo "make rpm     the RPM package of a release build"
	@echo "make image   the container image, as an OCI archive"
	@echo "make static  a tarball with a binary that needs no library, by musl (Debian's musl-tools)"
	@echo "make arm64   all artifacts for AArch64 (Debian's gcc-aarch64-linux-gnu, g++-aarch64-linux-gnu, and qemu-user)"
	@echo "make dist    all artifacts of a release: packages, tarball, image, bill of materials, checksums"

build:
	$(CARGO) build --release -p saker -p xtask

release:
	tools/install-test-programs --bench
	$(CARGO) build $(TOOLS) --release -p saker-bench
	CARGO="$(CARGO)" CARGO_TARGET_DIR="$(TARGET_DIR)" tools/build-with-profile

demo:
	$(CARGO) run -q --release -p xtask -- demo demo/site

run: build demo
	@echo "Saker serves demo/site on http://$(ADDRESS)/ and https://$(TLS_ADDRESS)/ (Ctrl-C stops it)"
	@exec "$(TARGET_DIR)/release/saker" serve demo/site --http "$(ADDRESS)" --https "$(TLS_ADDRESS)"

formatting:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --all --check --manifest-path tools/Cargo.toml

check: formatting
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy $(TOOLS) --workspace --all-targets -- -D warnings
	$(CARGO) run -q -p xtask -- tidy

tidy:
	$(CARGO) run -q -p xtask -- tidy

# The same as `check` and all tests: lints come with the build of the tests, which saves a second reading of all
# dependencies.
test: formatting
	tools/install-test-programs
	CARGO="$(CARGO)" tools/run-tests --lint

test-fast:
	CARGO="$(CARGO)" tools/run-tests --fast

soak:
	SAKER_SOAK="$(SOAK_REQUESTS)" $(CARGO) test -p saker --test adversarial -- --nocapture
	SAKER_SOAK="$(SOAK_REQUESTS)" $(CARGO) test -p saker --test serving cache::cache_workers:: -- --nocapture
	SAKER_CLUSTER_EVENTS=200 $(CARGO) test -p saker --test operation cluster::events:: -- --nocapture

bench:
	tools/install-test-programs --bench
	$(CARGO) build --release -p saker
	$(CARGO) build $(TOOLS) --release -p saker-bench
	"$(TARGET_DIR)/release/saker-bench" --saker "$(TARGET_DIR)/release/saker" $(BENCH)

lab:
	tools/install-test-programs --bench
	$(CARGO) build --release -p saker
	$(CARGO) build $(TOOLS) --release -p saker-bench
	"$(TARGET_DIR)/release/saker-bench" lab --saker "$(TARGET_DIR)/release/saker" --out lab $(if $(QUICK),--quick) $(LAB)

table:
	"$(TARGET_DIR)/release/saker-bench" table lab/summary.json README.md

fuzz:
	FUZZ_SECONDS="$(FUZZ_SECONDS)" tools/run-fuzz-targets $(FUZZ_TARGETS)

docs:
	$(CARGO) run -q -p xtask -- docs

# Beside the site lies what its pages link to outside of docs/.
site: docs
	command -v mdbook >/dev/null || $(CARGO) install mdbook --version 0.5.4 --locked --no-default-features --features search
	mdbook build docs -d "$(abspath $(TARGET_DIR))/site/docs"
	cp "$(TARGET_DIR)/site/docs/index.html" "$(TARGET_DIR)/site/docs/README.html"
	mkdir -p "$(TARGET_DIR)/site/fuzz" && cp -r contrib "$(TARGET_DIR)/site/"
	for page in ARCHITECTURE.md SECURITY.md fuzz/README.md; do \
		{ echo '<!doctype html><meta charset="utf-8"><pre>'; sed 's/&/\&amp;/g; s/</\&lt;/g' "$$page"; } >"$(TARGET_DIR)/site/$${page%.md}.html"; done
	@echo "$(TARGET_DIR)/site/docs/index.html"

# Without the paths of this machine in it, in what Rust compiles and in what C compilers do: the same source gives the
# same bytes elsewhere (tools/build-twice).
CARGO_FOLDER := $(or $(CARGO_HOME),$(HOME)/.cargo)
PACKED ?= --release -p saker

packed-binary:
	RUSTFLAGS="--remap-path-prefix=$(CURDIR)=saker --remap-path-prefix=$(CARGO_FOLDER)=cargo -Clink-arg=-Wl,--build-id" \
		CFLAGS="-ffile-prefix-map=$(CARGO_FOLDER)=cargo" $(CARGO) build $(PACKED)

packed: packed-binary
	$(CARGO) build -q -p xtask

deb: packed
	$(CARGO) run -q -p xtask -- package deb

rpm: packed
	$(CARGO) run -q -p xtask -- package rpm

image: packed
	$(CARGO) run -q -p xtask -- package image

MUSL := x86_64-unknown-linux-musl

static:
	command -v musl-gcc >/dev/null || { echo "musl-gcc is missing: apt-get install musl-tools" >&2; exit 1; }
	rustup target add $(MUSL)
	CC_x86_64_unknown_linux_musl=musl-gcc $(MAKE) packed-binary PACKED="$(PACKED) --target $(MUSL)"
	$(CARGO) run -q -p xtask -- package tarball --binary "$(TARGET_DIR)/$(MUSL)/release/saker"

# For AArch64, with Debian's cross compilers.
ARM64 := aarch64-unknown-linux-gnu

arm64:
	command -v aarch64-linux-gnu-gcc >/dev/null || { echo "aarch64-linux-gnu-gcc is missing: apt-get install gcc-aarch64-linux-gnu g++-aarch64-linux-gnu" >&2; exit 1; }
	command -v qemu-aarch64 >/dev/null || { echo "qemu-aarch64, which writes the manual pages, is missing: apt-get install qemu-user" >&2; exit 1; }
	rustup target add $(ARM64)
	CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc CXX_aarch64_unknown_linux_gnu=aarch64-linux-gnu-g++ \
		CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc $(MAKE) packed-binary PACKED="$(PACKED) --target $(ARM64)"
	$(CARGO) run -q -p xtask -- package --binary "$(TARGET_DIR)/$(ARM64)/release/saker"

dist: packed
	rm -rf "$(TARGET_DIR)/dist"
	$(CARGO) run -q -p xtask -- package

clean:
	$(CARGO) clean
	rm -rf demo/site
