# Everything runs in .venv, made here from requirements.lock; only python3 and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where `make run` keeps its state: in the checkout, where nobody else can have laid a trap.
STATE ?= .run
STAMP := $(VENV)/.installed
# Where `make install` puts things.
PREFIX ?= /usr/local
UNITS ?= /etc/systemd/system
DESTDIR ?=
# Where the archive of the krew plugin will be fetched from.
KREW_URL ?= https://example.com/kubectl-numa.tar.gz

.DEFAULT_GOAL := help
.PHONY: help setup run test check e2e-quick e2e e2e-numa mutations fuzz twin bench sim image dist screenshots lock proto install uninstall clean

help: ## Show what can be done
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv from the lock file (quick when nothing changed)

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "numalign needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

run: setup ## Run the agent on this host with a few example pods
	$(BIN)/numalign up --state-dir "$(STATE)"

test: setup ## Run all tests that need nothing but this checkout
	$(BIN)/python -m pytest -m "not e2e and not e2e_numa"

check: setup ## Lint, types and layer contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

e2e-quick: setup ## Run real processes, cgroups, faults and kills (root; minutes)
	$(BIN)/python -m pytest -m e2e_quick

e2e: setup ## Run the tests that need real components
	$(BIN)/python -m pytest -m e2e

e2e-numa: setup ## Run the tests that need a kernel with several NUMA nodes (QEMU, Go, root; an hour)
	$(BIN)/python -m pytest -m e2e_numa

mutations: setup ## Break a copy of the code in a hundred small ways; the tests must notice each
	$(BIN)/python -m tests.mutations

fuzz: setup ## Hostile bytes for every parser: mutated, and guided by coverage where atheris installs (10 minutes)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'atheris>=3,<4' || true
	$(BIN)/python -m tests.fuzz --inputs 50000 --seed $$(date +%j) --keep .fuzz/mutated
	$(BIN)/python -m tests.fuzz.guided --seconds 300

twin: setup ## The real kubelet beside our agent, step by step; CONFIG=name for one configuration
	$(BIN)/python -m tests.twin $(CONFIG)

bench: setup ## Measure, beside the real Go code where Go is installed
	$(BIN)/python -m bench

sim: setup ## Simulate fleets: the report that compares schedulers on traces and a preset
	$(BIN)/python -m bench.sim

image: setup ## Make the container image, without a container engine, in dist (Debian's apt, network)
	$(BIN)/python -m tools.image $(IMAGE_OPTIONS)

dist: setup ## Build wheel, sdist and the krew plugin in dist; the same sources give the same bytes
	$(BIN)/python -m hatchling build --directory dist
	$(BIN)/python -m tools.krew "$(KREW_URL)" dist

proto: setup ## Make the protobuf messages anew from src/numalign/wire/*/_generated/*.proto
	$(BIN)/python -m grpc_tools.protoc --proto_path=src --python_out=src --pyi_out=src src/numalign/wire/*/_generated/*.proto

screenshots: setup ## Render the pictures of the page in docs/images (Chromium, root)
	$(BIN)/python -m tests.page.screenshots

lock: setup ## Resolve the dependencies anew into requirements.lock
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --all-extras --group dev -o requirements.lock pyproject.toml
	$(BIN)/python -m tests.packaging.runtime_lock
	$(MAKE) setup
	$(BIN)/python -m tools.sbom

install: ## Install for good: the program, its commands and a systemd unit (root; DESTDIR, PREFIX)
	$(PYTHON) -m venv $(DESTDIR)$(PREFIX)/lib/numalign
	$(DESTDIR)$(PREFIX)/lib/numalign/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r packaging/requirements.lock
	$(DESTDIR)$(PREFIX)/lib/numalign/bin/python -m pip install --quiet --disable-pip-version-check --no-deps .
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(UNITS) $(DESTDIR)/etc/numalign/pods
	for name in numalign kubectl-numa; do ln -sf ../lib/numalign/bin/$$name $(DESTDIR)$(PREFIX)/bin/$$name; done
	$(DESTDIR)$(PREFIX)/lib/numalign/bin/python -m tools.man $(DESTDIR)$(PREFIX)/share/man/man1
	sed 's#/usr/local/bin/#$(PREFIX)/bin/#' packaging/numalign-agent.service > $(DESTDIR)$(UNITS)/numalign-agent.service
	@if [ -z "$(DESTDIR)" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
	@echo "Start it with: systemctl enable --now numalign-agent"

uninstall: ## Remove what install made; state in /var/lib/numalign and /etc/numalign stay
	@if [ -z "$(DESTDIR)" ] && [ -d /run/systemd/system ]; then systemctl disable --now numalign-agent || true; fi
	rm -rf $(DESTDIR)$(PREFIX)/lib/numalign
	rm -f $(DESTDIR)$(PREFIX)/bin/numalign $(DESTDIR)$(PREFIX)/bin/kubectl-numa $(DESTDIR)$(UNITS)/numalign-agent.service
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/numalign.1 $(DESTDIR)$(PREFIX)/share/man/man1/numalign-*.1

clean: ## Remove everything that make made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .run .fuzz
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
