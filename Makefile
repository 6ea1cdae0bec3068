# make demo: see it work. make test: run the tests. Both set up everything in $(VENV).
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

.PHONY: demo test lint format docs site clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "kernel-lint needs Python 3.10 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'torch==2.13.0'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,verify,lsp,report,docs,fleet]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/kernel-lint finalize examples/softmax
	@echo
	@echo "The same file run on the emulator, without a GPU:"
	$(BIN)/kernel-lint verify examples/softmax/generated_kernel.py --backend emulate --quiet
	$(BIN)/kernel-lint finalize examples/rmsnorm --backend emulate
	$(BIN)/kernel-lint finalize examples/gemm --backend emulate

test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -q -m 'not slow' --durations=15

# The repetitions and soaks that take minutes each.
test-slow: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -q -m slow

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/kernel-lint check kernel_lint rules packager tools benchmarks --select KL001,KL003,KL205
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/kernel-lint package examples/softmax/kernel.py -o - | $(BIN)/kernel-lint - --stdin-filename generated_kernel.py

docs: $(STAMP)
	$(BIN)/python -m kernel_lint.docgen

# The documentation site, in site/; a broken link or anchor fails it.
site: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist site *.egg-info
