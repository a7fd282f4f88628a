# The project's verbs. CI calls the same ones.
GO  ?= go
# A home that can't be written to (containers, CI) gets Go's caches inside .tools, which git ignores.
ifeq ($(shell test -n "$$HOME" && test -w "$$HOME" && echo yes),)
export GOCACHE    ?= $(CURDIR)/.tools/go/cache
export GOMODCACHE ?= $(CURDIR)/.tools/go/mod
export GOPATH     ?= $(CURDIR)/.tools/go/path
endif
# The commit is stamped into the binary wherever git can tell it.
VCS  = $(shell test -d .git && git rev-parse -q --verify HEAD >/dev/null 2>&1 && echo auto || echo false)
# Tests wait for processes as well as compute: one package more at once than there are processors.
PACKAGES = $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1)
# No debugger looks at test programs: without its tables compiling them takes an eighth less, and linking eighty of them a quarter.
BARE = -gcflags=-dwarf=false -ldflags=-w
# Programs that are built with the race detector wait for a second when they end, if nobody says otherwise, and get what it keeps of
# each word of memory in small pages: where the machine is a guest, getting pages is a third of what tests do.
export GORACE ?= atexit_sleep_ms=0 no_huge_pages_for_shadow=0
# The compiler works a sixth less when it may leave more garbage; its largest package takes 1.2 GB then, instead of 0.75.
GARBAGE = 400
# Go keeps no results (-count=1): to know whether one still counts it would look again at each of the millions of files that tests open, which
# takes a tenth of all the time, and next to nothing stays as it was.
# Vet looks at the packages that the tests are built of: one set of compiled packages beside that of the program, not two.
# The commands' library comes without its pages of documentation, for which it would bring a reader of Markdown.
TAGS = -tags urfave_cli_no_docs
# What takes longest begins first, so that no processor waits for it in the end.
LONGEST = ./e2e ./internal/runner ./internal/cli ./agents/agentstest ./faults ./internal/board ./internal/scheduler ./internal/share ./internal/sandbox ./bench
RACE = $(if $(shell command -v $(firstword $(shell $(GO) env CC))),-race)

# Without C's library the program needs none of the machine's, and each of its threads takes 70 MB of addresses less.
.PHONY: release-snapshot setup-release test-release site
.PHONY: build test vet demo bench bench-real lint setup fuzz soak build-cluster setup-cluster test-cluster
build:
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath $(TAGS) -buildvcs=$(VCS) -o bin/trellis ./cmd/trellis
test: export GOGC = $(GARBAGE)
test:
	@$(MAKE) --no-print-directory -j2 setup vet
	$(if $(RACE),,@echo 'make: no C compiler, so the race detector stays off')
	scripts/memory.sh $(GO) test $(TAGS) $(RACE) $(BARE) -count=1 -vet=off -p $(PACKAGES) -timeout 60m $(LONGEST) ./...
vet:
	$(GO) vet $(TAGS) $(RACE) $(BARE) ./...
demo: build
	bin/trellis demo
bench: build
	$(GO) run ./bench
bench-real: build
	$(GO) run ./bench -only "real project" $(if $(BEFORE),-before $(BEFORE))
lint:
	scripts/lint.sh
setup:
	scripts/setup.sh
fuzz:
	scripts/fuzz.sh
soak:
	scripts/soak.sh $(or $(FOR),10m) $(SEED)
# trellis-cluster is a module of its own in cluster/, with what Temporal needs. Its tests skip where setup-cluster has not been.
build-cluster:
	@mkdir -p bin
	cd cluster && CGO_ENABLED=0 $(GO) build -trimpath $(TAGS) -buildvcs=$(VCS) -o ../bin/trellis-cluster ./cmd/trellis-cluster
setup-cluster:
	scripts/setup-cluster.sh
test-cluster:
	cd cluster && $(GO) vet $(TAGS) ./... && $(GO) test $(TAGS) $(RACE) -v -parallel 2 ./...
# What a release has, without a network. The tools come from setup-release.
setup-release:
	scripts/setup-release.sh
release-snapshot:
	scripts/release.sh
# README and docs/ as pages of a site, in bin/site.
site:
	scripts/site.sh
	scripts/check-site.py bin/site
# What a release has, tried as its users get it; some minutes.
test-release:
	scripts/test-release.sh
