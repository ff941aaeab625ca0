# From a fresh Debian machine to a decision: `make run`. The build itself is Meson's.

BUILD = build
PREFIX ?= /usr/local
BUILD_PACKAGES = gcc libc6-dev meson ninja-build pkg-config libuv1-dev libyaml-dev \
	libhiredis-dev libssl-dev libcrypt-dev zlib1g-dev libzstd-dev \
	libnghttp2-dev node-llhttp tzdata ca-certificates
TEST_PACKAGES = clang libclang-rt-14-dev libcmocka-dev libjansson-dev redis-server redis-tools nginx wrk curl \
	g++ libc6-dev-arm64-cross python3-venv spin tcc libmicrohttpd-dev caddy haproxy chromium \
	php-cli php-fpm php-redis iproute2 openssl whois nghttp2-client wamerican \
	$(call unless,npm,nodejs npm) $(call unless,go,golang-go) \
	systemd man-db groff zsh fish zstd valgrind
DEB_PACKAGES = build-essential debhelper dpkg-dev
RELEASE_PACKAGES = mmdebstrap git python3 util-linux
RELEASE_TEST_PACKAGES = crun rpm cpio binutils curl iproute2 redis-server redis-tools openssl lintian systemd python3-venv \
	$(DEB_PACKAGES) $(call unless,go,golang-go)
FORMAT_PACKAGES = clang-format
# Packages for a program that may be there from elsewhere.
unless = $(if $(shell command -v $(1) 2>/dev/null),,$(2))
PYTHON = /usr/bin/python3

.PHONY: set-up build deps test-deps run check test test-release fuzz bench install deb release format
.NOTPARALLEL:
.DEFAULT_GOAL = build

set-up:
	@packaging/set-up $(BUILD)

build: set-up
	@ninja -C $(BUILD)

deps:
	@packaging/apt-install $(BUILD_PACKAGES)

test-deps: deps
	@packaging/apt-install $(TEST_PACKAGES)

run: deps build
	@echo
	@echo "Try, in another terminal:"
	@echo "  curl -i 'http://127.0.0.1:8080/v1/acquire/login?key=1.2.3.4'"
	@echo "  redis-cli -p 6380 CL.THROTTLE user:1 9 5 1"
	@echo "  $(BUILD)/weir ask login 1.2.3.4"
	@echo
	@exec $(BUILD)/weir serve -c examples/weir.yaml

# What a change most likely broke, in a minute and a half.
check: test-deps set-up
	@$(PYTHON) tests/check.py

test: test-deps set-up
	@$(PYTHON) tests/run.py

# Builds a release twice, compares, installs and starts all parts of it: half an hour on two slow cores.
test-release: test-deps
	@packaging/apt-install $(RELEASE_PACKAGES) $(RELEASE_TEST_PACKAGES)
	@$(PYTHON) tests/run.py --only release

# make fuzz FUZZ_SECONDS=3600
fuzz: test-deps set-up
	@$(PYTHON) tests/run.py --only fuzz --fuzz-seconds $(or $(FUZZ_SECONDS),600)

bench: test-deps build
	@ninja -C $(BUILD) benches
	@$(PYTHON) bench/run.py

# make install PREFIX=~/weir, or DESTDIR=image PREFIX=/usr; needs root only where they do.
install: build
	@meson configure $(BUILD) --prefix "$$(realpath -m '$(PREFIX)')" --libdir lib
	@meson install -C $(BUILD) $(if $(DESTDIR),--destdir "$$(realpath -m '$(DESTDIR)')")
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig

# The packages are in build/deb.
deb: deps
	@packaging/apt-install $(DEB_PACKAGES)
	@packaging/deb $(BUILD)/deb

# All that is published, in build/release. It is built in Debian systems, which only root may enter.
release:
	@packaging/apt-install $(RELEASE_PACKAGES)
	@mkdir -p $(BUILD)
	@$(if $(filter 0,$(shell id -u)),,sudo) $(PYTHON) -B packaging/release/build.py $(BUILD)/release $(BUILD)/roots

format:
	@packaging/apt-install $(FORMAT_PACKAGES)
	@git ls-files '*.c' '*.h' | xargs clang-format -i
