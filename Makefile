# make demo | test | whole | check | bench | docs | torch | ray | nodes | bridges | clean: each does its own set-up (Debian: python3 >= 3.11, python3-venv, gcc, git).
# make demo TAKE=10 plays the first ten tasks only, and learns for a few seconds only.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Where the house says so, Python compiles all of us again at each of some hundred starts.
unexport PYTHONDONTWRITEBYTECODE
SOURCES := $(wildcard src/quintain/sandbox/native/*.c src/quintain/sandbox/native/*.h)

.PHONY: demo test whole check bench docs torch ray nodes bridges clean venv
.DELETE_ON_ERROR:

venv: $(READY)

$(READY): pyproject.toml setup.py $(SOURCES)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Quintain needs Python 3.11 or newer, found $$($(PYTHON) -V): set PYTHON=python3.x" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,tasks]'
	@touch $@

# What the demo's last part learns with; without it the demo ends before that part and says so.
torch: $(READY)
	$(BIN)/python .ci/torch_cpu.py

demo: $(READY)
	-@$(BIN)/python .ci/torch_cpu.py
	$(BIN)/python examples/demo.py $(if $(TAKE),--take $(TAKE))
	$(BIN)/python examples/learn.py $(if $(TAKE),--take $(TAKE))

# Side by side first, by file, those that take long before the others; then those that must be alone. TESTS=tests/grade runs one room.
test: $(READY)
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder --durations=40 -m "not alone and not whole" $(TESTS)
	$(BIN)/python -m pytest -m "alone and not whole" $(TESTS) || test $$? = 5

# What make test plays a part of: the whole conformance kit on each backend, trainings that are killed.
whole: $(READY)
	$(BIN)/python -m pytest -v -m whole $(TESTS)

check: $(READY)
	$(BIN)/ruff check setup.py src tests bench examples .ci
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/module_size.py
	$(BIN)/python .ci/docs_links.py

bench: $(READY)
	@for script in bench/[!_]*.py; do echo "== $$script"; $(BIN)/python $$script --quick || exit 1; done

docs: $(READY)
	$(BIN)/python .ci/docs_links.py

# The engine of a Ray cluster, whose tests are skipped without it (80 MB).
ray: $(READY)
	@$(BIN)/python -c 'import ray' 2>/dev/null \
	  || timeout 180 $(BIN)/python -m pip install --quiet --disable-pip-version-check 'ray[client]>=2.40'

# Three nodes of which one is lost, also with a real Ray cluster that places what works on them.
nodes: ray
	$(BIN)/python -m pytest -s -m three_nodes tests/fleet/test_three_nodes.py

# Harbor needs Python 3.12, NeMo Gym 3.13.14: one that is found, or named; without, the table has no rows of it.
HARBOR_PYTHON ?= $(firstword $(shell for name in python3.14 python3.13 python3.12; do \
  $$name -c '' 2>/dev/null && echo $$name; done))
NEMO_PYTHON ?= $(firstword $(shell for name in python3.14 python3.13; do \
  $$name -c 'import sys; sys.exit(sys.version_info < (3, 13, 14))' 2>/dev/null && echo $$name; done))

# What we play against in other people's own packages (about 940 MB, in an environment of their own), and the table of it.
bridges:
	test -x .venv-bridges/bin/python || $(PYTHON) -m venv .venv-bridges
	.venv-bridges/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	.venv-bridges/bin/python .ci/torch_cpu.py
	.venv-bridges/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' --group bridges
	test -x .venv-bridges/verifiers/bin/python || $(PYTHON) -m venv .venv-bridges/verifiers
	.venv-bridges/verifiers/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	.venv-bridges/verifiers/bin/python -m pip install --quiet --disable-pip-version-check -e . pytest hypothesis --group bridges-verifiers
	test -x .venv-bridges/adapters/bin/python || $(PYTHON) -m venv .venv-bridges/adapters
	.venv-bridges/adapters/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	.venv-bridges/adapters/bin/python .ci/torch_cpu.py
	.venv-bridges/adapters/bin/python -m pip install --quiet --disable-pip-version-check -e . pytest hypothesis --group bridges-adapters
	.venv-bridges/adapters/bin/python -m pip install --quiet --disable-pip-version-check --no-deps 'verl>=0.9' 'openrlhf>=0.11' 'areal>=1.0'
	test -z '$(HARBOR_PYTHON)' || test -x .venv-bridges/harbor/bin/python || $(HARBOR_PYTHON) -m venv .venv-bridges/harbor
	test -z '$(HARBOR_PYTHON)' || .venv-bridges/harbor/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	test -z '$(HARBOR_PYTHON)' || .venv-bridges/harbor/bin/python -m pip install --quiet --disable-pip-version-check -e . pytest hypothesis --group bridges-harbor
	test -z '$(NEMO_PYTHON)' || test -x .venv-bridges/nemo/bin/python || $(NEMO_PYTHON) -m venv .venv-bridges/nemo
	test -z '$(NEMO_PYTHON)' || .venv-bridges/nemo/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	test -z '$(NEMO_PYTHON)' || .venv-bridges/nemo/bin/python -m pip install --quiet --disable-pip-version-check -e . pytest hypothesis --group bridges-nemo
	rm -f docs/rooms/bridges-table.md
	.venv-bridges/bin/python -m pytest tests/bridges tests/curate/test_openenv.py tests/serve/test_gateway_sdks.py tests/train/test_adapters.py \
	  tests/train/test_trl.py --bridges-table docs/rooms/bridges-table.md
	.venv-bridges/verifiers/bin/python -m pytest tests/bridges/test_gymnasium.py tests/train/test_adapters.py \
	  --bridges-table docs/rooms/bridges-table.md
	.venv-bridges/adapters/bin/python -m pytest tests/bridges/test_tinker_sandbox.py tests/train/test_adapters.py \
	  --bridges-table docs/rooms/bridges-table.md
	test -z '$(HARBOR_PYTHON)' || .venv-bridges/harbor/bin/python -m pytest tests/bridges/test_harbor.py tests/bridges/test_harbor_results.py \
	  --bridges-table docs/rooms/bridges-table.md
	test -z '$(NEMO_PYTHON)' || .venv-bridges/nemo/bin/python -m pytest tests/bridges/test_nemo.py \
	  --bridges-table docs/rooms/bridges-table.md

clean:
	rm -rf $(VENV) .venv-bridges build dist .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis src/*.egg-info
	rm -f src/quintain/sandbox/native/quintain-sandbox src/quintain/sandbox/native/*.so
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
