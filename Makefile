# The course from a clean clone: `make course` builds and grades everything, `make test` proves it.
# Needs Python 3.11-3.13 and make; everything else goes into .venv (and KaTeX into node_modules).

PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.ready
SAMPLE := _build/sample_class
PORT ?= 8000

.PHONY: help course test test-fast coverage lint serve lab setup release book pdf wheels lock update clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

course: $(SETUP) ## set up, release the notebooks, build the book, grade the sample class, make bundles
	@echo "1/4 notebooks" && $(BIN)/autograder release
	@echo "2/4 book" && $(BIN)/python book/build.py
	@echo "3/4 bundles" && $(BIN)/autograder bundle all
	@echo "4/4 sample class" && rm -rf $(SAMPLE)/submitted && mkdir -p $(SAMPLE) && cp nbgrader_config.py $(SAMPLE) && ln -sfn ../../solutions $(SAMPLE)/solutions
	@$(BIN)/python -m autograder.proof.samples.make $(SAMPLE)
	@$(BIN)/autograder grade --course $(SAMPLE) --submissions $(SAMPLE)/submitted --cell-limit 3
	@$(BIN)/autograder feedback --course $(SAMPLE)
	@$(BIN)/autograder report --course $(SAMPLE) >/dev/null
	@echo
	@echo "$$(ls book/[0-9]*.md | wc -l) chapters built         _build/html/index.html      make serve"
	@echo "$$(ls notebooks/*/*.ipynb | wc -l) notebooks released     notebooks/                  make lab"
	@echo "$$(ls bundles/*.zip | wc -l) bundles made           bundles/"
	@echo "$$(ls -d $(SAMPLE)/submitted/*/*/ | wc -l) submissions graded  $(SAMPLE)/reports/ and feedback/"

test: $(SETUP) release ## every test
	@$(MAKE) --no-print-directory -j2 lint book
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-fast: $(SETUP) ## the tests that take no longer than a second or two each, and no built book
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
	@$(BIN)/python book/build.py

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
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else \
	  f"This course needs Python 3.11 to 3.13; {sys.executable} is {v[0]}.{v[1]}. Try: make PYTHON=python3.12 ...")'
	@echo "Setting up .venv: a few minutes the first time"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@
