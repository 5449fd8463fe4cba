# make demo: the main job on this machine, no GPU, no root.  make test: everything that is checked.
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
ROOT := $(CURDIR)/.demo
export PATH := $(BIN):$(PATH)

.PHONY: demo demo-stop demo-clean test lint unit sanity model lab contract fresh benchmark molecule lock
.DELETE_ON_ERROR:

$(VENV)/.tools: requirements.txt tools/make_venv.py
	$(PYTHON) tools/make_venv.py $(VENV) "$$(grep '^uv==' requirements.txt)"
	$(BIN)/uv pip install --quiet --python $(BIN)/python $(if $(PIP_INDEX_URL),--index-url $(PIP_INDEX_URL)) -r requirements.txt
	$(BIN)/python tools/link_collection.py
	touch $@

$(VENV)/.test-tools: requirements-test.txt $(VENV)/.tools
	$(BIN)/uv pip install --quiet --python $(BIN)/python $(if $(PIP_INDEX_URL),--index-url $(PIP_INDEX_URL)) -r requirements-test.txt
	touch $@

demo: $(VENV)/.tools
	$(BIN)/ansible-playbook playbooks/demo_model.yml site.yml -i inventories/local

demo-stop:
	@$(PYTHON) tools/stop_demo.py $(BIN)/supervisorctl $(ROOT)/state/supervisor/supervisord.conf

demo-clean: demo-stop
	rm -rf $(ROOT)

lint: $(VENV)/.test-tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	tools/mypy.sh
	$(BIN)/python tools/role_readmes.py --check
	$(BIN)/yamllint --strict .
	$(BIN)/ansible-lint --strict roles playbooks molecule
	$(BIN)/reuse lint --quiet
	$(BIN)/antsibull-changelog lint
	$(BIN)/antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs self --skip-rstcheck .

unit: $(VENV)/.test-tools
	$(BIN)/pytest tests/unit

# The engine and the demo's model, built as a user builds them.
model: $(VENV)/.test-tools
	$(BIN)/ansible-playbook playbooks/demo_model.yml -i inventories/local

# What the test hosts need on this machine; installing it takes root, and so do the hosts.
lab: $(VENV)/.test-tools
	@missing=$$(for p in $$(grep -v '^#' tests/lab/packages.txt); do \
	  dpkg-query -W -f '$${Status}\n' $$p 2>/dev/null | grep -q 'install ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; fi
	$(BIN)/python tests/lab/lab.py root

contract: model lab
	FIRSTTOKEN_ENGINE_PYTHON=$(ROOT)/engine/current/bin/python FIRSTTOKEN_LAB_ROOT=$(CURDIR)/.cache/lab/root-bookworm/tree \
	  $(BIN)/pytest tests/contract tests/lab

molecule: model lab
	$(BIN)/molecule test --all --no-command-borders

sanity: $(VENV)/.test-tools
	tools/sanity.sh

# The README's first command as a newcomer on bare Debian runs it.
fresh: lab
	$(BIN)/pytest tests/demo

# Figures, each a ratio against a baseline in the same run; not part of the tests.
benchmark: model
	$(BIN)/pytest -s tests/benchmark

test: lint unit sanity contract fresh molecule

lock:
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-annotate requirements.in -o requirements.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-annotate requirements-test.in -o requirements-test.txt
