# make run    builds bobbin and opens its local page's door
# make test   installs what the tests need, then runs everything
GO      ?= go
VERSION ?= $(shell git describe --always --dirty 2>/dev/null || echo dev)
STEP     = sh scripts/step

.PHONY: run build test conformance lint bench clean

run: build
	./bin/bobbin serve

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/bobbin ./cmd/bobbin

test:
	$(STEP) tools sh scripts/tools
	$(STEP) lint $(MAKE) --no-print-directory lint
	$(STEP) platforms sh scripts/platforms
	$(STEP) tests sh scripts/engine run $(GO) test -race -timeout 20m ./...
	$(STEP) load $(GO) test -run Load ./cmd/bobbin

conformance:
	sh scripts/tools
	$(GO) test -count 1 -v -run Conformance ./cmd/bobbin

lint:
	sh scripts/lint

bench:
	sh scripts/engine run sh scripts/bench

clean:
	sh scripts/engine remove
	rm -rf bin .tools testdata/*/node_modules
