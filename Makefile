# The commands of the README. Each sets up what it needs; a second time that is quick.
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.penstock-set-up
TYPED := build/typed
IMAGE ?= penstock:dev

.PHONY: run test test-fast check typecheck format setup clean image base-image

run: setup
	$(BIN)/penstock run taxi

test: setup
	$(BIN)/pytest

test-fast: setup
	$(BIN)/pytest -m "not slow"

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory typecheck

# mypy knows a package by its folders, so it is shown the tree as it is installed.
typecheck: setup
	@mkdir -p $(TYPED)/penstock
	@for room in components pipelines schemas; do ln -sfn ../../../$$room $(TYPED)/penstock/$$room; done
	cd $(TYPED) && ../../$(BIN)/mypy --config-file ../../pyproject.toml -p penstock

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup: $(STAMP)

# Bytecode is compiled at set-up: without it every start pays 15 s for TFX's imports.
$(STAMP): pyproject.toml uv.lock .python-version
	@test -x $(BIN)/python || python3 -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet "uv>=0.5"
	UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync --locked --inexact --compile-bytecode --quiet
	@touch $@

# debian:trixie-slim by debootstrap, where no registry can be reached; needs root.
base-image:
	k8s/base-image.sh

# The image of k8s/Dockerfile; needs a Docker daemon, and a network while it is built.
image:
	docker build --network host --file k8s/Dockerfile --tag $(IMAGE) .

clean:
	rm -rf $(VENV) build runs
