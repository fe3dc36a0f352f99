# Shortcuts for working on Braid. Everything here is a plain go command underneath; nothing needs
# to be installed but Go (and a C compiler for the race detector; node for `make interop`). `make`
# alone lists the targets.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

COUNT     ?= 1
PKG       ?= ./...
FUZZTIME  ?= 20s
BENCH     ?= .
BENCHTIME ?= 1s
SOAK      ?= 5m

# Developer tools are pinned in a module of their own, so they never enter the product's.
TOOL := go tool -modfile=tools/go.mod

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  Variables: COUNT=$(COUNT) PKG=$(PKG) FUZZTIME=$(FUZZTIME) BENCH=$(BENCH) BENCHTIME=$(BENCHTIME) SOAK=$(SOAK)"

run: ## run everything in one process; prints the address and its token
	go run ./cmd/braid dev

build: ## build the commands into bin/
	go build -o bin/ ./cmd/...

test: ## run all tests under the race detector
	go test -race -timeout 30m -count $(COUNT) $(PKG)

test-short: ## run the quick tests only, without the race detector
	go test -short -timeout 20m $(PKG)

lint: ## run the linters, the vulnerability check and what verify checks
	.ci/lint
	.ci/vulnerabilities

lint-fix: ## format, and let the linters mend what they can
	$(TOOL) golangci-lint fmt
	$(TOOL) golangci-lint run --fix

fuzz: ## fuzz every target for FUZZTIME each
	.ci/fuzz $(FUZZTIME)

bench: ## run the benchmarks; results go to bin/bench.txt, those before to bin/bench.old.txt
	@mkdir -p bin
	@if [ -f bin/bench.txt ]; then mv bin/bench.txt bin/bench.old.txt; fi
	go test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) -count $(COUNT) $(PKG) | tee bin/bench.txt

bench-compare: ## compare the last two runs of bench (use COUNT=10 for both)
	$(TOOL) benchstat bin/bench.old.txt bin/bench.txt

cover: ## measure coverage: a line a package, the total, and coverage/index.html
	@mkdir -p coverage
	go test -timeout 30m -coverprofile coverage/profile.txt $(PKG)
	go tool cover -html coverage/profile.txt -o coverage/index.html
	@go tool cover -func coverage/profile.txt | tail -1

interop: ## test against programs of other people: needs node 20, uses npm, the nats command and Chromium
	.ci/interop

page: ## test the web page in Chromium, and leave pictures of its states in bin/page
	.ci/page

soak: ## strike at running processes at random for SOAK, and try many schedules of the core
	go test ./engine/internal/session -timeout 0 -count 1 -rapid.checks 100000
	go test ./engine/internal/schedule -timeout 0 -count 1 -orders 3000 -seed $$RANDOM
	go test ./internal/systemtest -run Chaos -timeout 0 -count 1 -v -args -chaos $(SOAK)

mutants: ## break each guarantee on purpose, see it noticed, and write docs/mutants.md: six minutes or more
	go test ./internal/mutation -run 'TestMutants$$' -timeout 0 -count 1 -parallel 2 -v -args -mutants -write

verify: ## check formatting, modules and scripts: quick, before a commit
	.ci/verify

ci: ## run what continuous integration runs
	.ci/run

clean: ## remove what the other targets made
	rm -rf bin coverage

.PHONY: help run build test test-short lint lint-fix fuzz bench bench-compare cover interop page soak mutants verify ci clean
