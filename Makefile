# The commands of the README. Each sets up what it needs; a second time that is quick.
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.penstock-set-up
IMAGE ?= penstock:dev
KFP := build/kfp
BUILD := docker build --network host --force-rm --quiet
# A file of tests runs in one worker, so that what its tests share is made once, and the files that
# run whole pipelines begin first (tests/conftest.py). One worker more than there are cores, as many
# tests wait; a worker holds TensorFlow, so no more than four.
WORKERS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
PYTEST := pytest --numprocesses $(WORKERS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: run test test-all check typecheck docs dist format setup clean
.PHONY: base-image image image-gpu image-for-tests test-image
.PHONY: audit cluster cluster-down conformance

run: setup
	$(BIN)/penstock run taxi

# Every unit, and one run each of taxi, of a package of `init`, and one compile.
test: setup
	$(BIN)/$(PYTEST) -m "not slow and not image"

# All but the containers: whole pipelines again, kills, full disks, loads, stock TFX, servers, stores,
# Spark and a browser. Needs root, to mount a tmpfs, and the packages of .ci/packages.
test-all: setup
	$(BIN)/$(PYTEST) -m "not image"

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory typecheck

typecheck: setup
	$(BIN)/mypy -p penstock

# The documentation site, build/site, with the public names from their docstrings. A broken link is
# an error.
docs: setup
	$(BIN)/mkdocs build --quiet --strict

# The sdist and the wheel, which is then installed into an empty environment, with the versions of
# uv.lock, and runs the taxi pipeline.
dist: setup
	rm -rf dist build/dist
	$(BIN)/uv build --quiet --python $(BIN)/python
	$(BIN)/python -m venv build/dist
	$(BIN)/uv export --quiet --locked --no-emit-project --no-hashes --no-dev --output-file build/dist/constraints.txt
	$(BIN)/uv pip install --quiet --python build/dist/bin/python --constraint build/dist/constraints.txt dist/*.whl
	cd build/dist && bin/penstock run taxi

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup: $(STAMP)

# Bytecode is compiled at set-up: without it every start pays 15 s for TFX's imports.
$(STAMP): pyproject.toml uv.lock .ci/python
	@python=$$(.ci/python $(VENV)) && \
	    { [ "$$python" = $(BIN)/python ] || "$$python" -m venv --clear $(VENV); }
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet "uv>=0.5"
	UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync --python $(BIN)/python --no-python-downloads \
	    --locked --inexact --compile-bytecode --quiet
	@touch $@

# debian:trixie-slim by debootstrap, where no registry can be reached; needs root.
base-image:
	k8s/base-image.sh

# The image of k8s/Dockerfile; needs a Docker daemon, and a network while it is built. Its stages are
# tagged, so that a next build finds them; what is then left without a tag is out of date.
image:
	for stage in dependencies pruned project environment; do \
	    $(BUILD) --file k8s/Dockerfile $(BUILD_ARGS) \
	        --target $$stage --tag $(IMAGE)-$$stage . || exit 1; \
	done
	$(BUILD) --file k8s/Dockerfile $(BUILD_ARGS) \
	    --build-arg REVISION=$$(git rev-parse HEAD) --tag $(IMAGE) .
	@docker image prune --force --filter label=org.opencontainers.image.title=penstock >/dev/null

# The same with CUDA's libraries, 3 GB more.
image-gpu:
	@$(MAKE) --no-print-directory image IMAGE=$(IMAGE)-gpu BUILD_ARGS="--build-arg MORE_EXTRAS=gpu"

# The image with what its tests need.
image-for-tests: image
	$(BUILD) --file k8s/test.Dockerfile --build-arg IMAGE=$(IMAGE) \
	    --tag $(IMAGE)-test .
	@docker image prune --force --filter label=org.opencontainers.image.title=penstock >/dev/null

# In the image, Python 3.13 and TFX 1.21, as its user and without network: the tests of `make test`,
# and of the slow ones those that meet TFX, TensorFlow, Beam or Spark in other versions. Then the
# compiled pipeline in containers, by the local engine of the newest kfp.
IN_IMAGE := docker run --rm --network none --hostname localhost --read-only --volume /tmp \
    --volume $(CURDIR):/tests:ro --env PYTEST_ADDOPTS $(IMAGE)-test $(PYTEST) -p no:cacheprovider
SLOW_IN_IMAGE := $(addprefix tests/,components/batches components/evaluator/test_evaluate.py \
    components/sources/test_spark.py components/trainer/test_loop.py components/trainer/test_resume.py \
    components/trainer/test_workers.py pipelines/digits pipelines/taxi/test_pipeline.py)
test-image: image-for-tests setup $(KFP)/bin/kfp
	$(IN_IMAGE) -m "not slow and not image"
	$(IN_IMAGE) -m "slow and not image" $(SLOW_IN_IMAGE)
	PENSTOCK_IMAGE=$(IMAGE) KFP_PYTHON=$(abspath $(KFP))/bin/python \
	    $(BIN)/$(PYTEST) -m image tests/containers

# KServe's server and agent for a test; the agent is built from its Go module, by its own versions of
# libraries, without optimizing: 2.6 minutes of a core instead of 3.8.
KSERVE_GO := github.com/kserve/kserve@v0.17.0
build/kserve/bin/python:
	$$(.ci/python $(VENV)) -m venv --clear build/kserve
	build/kserve/bin/pip install --quiet kserve==0.21.0

build/kserve-agent:
	mkdir -p build
	source=$$(go mod download -json $(KSERVE_GO) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && \
	    install -m 644 $$source/go.mod $$source/go.sum build && cd $$source && \
	    GOGC=off go build -gcflags="all=-N -l" -mod=mod -modfile=$(CURDIR)/build/go.mod \
	        -o $(CURDIR)/build/kserve-agent ./cmd/agent

$(KFP)/bin/kfp:
	python3 -m venv $(KFP)
	$(KFP)/bin/pip install --quiet --upgrade "kfp>=2.14" docker

# One real node of Kubernetes with Kubeflow Pipelines on this machine, and the checks on it; needs root,
# Debian, Go and a Docker daemon: tests/cluster/README.md.
cluster: setup
	tests/cluster/up

cluster-down:
	tests/cluster/down

conformance:
	python3 tests/conformance --kubeconfig build/cluster/kubeconfig --image $(IMAGE) \
	    --mariadb penstock/mariadb:1 --s3-image penstock/stand-ins:1 $(CHECKS)

# Known vulnerabilities of what uv.lock pins for this Python, by PyPI's advisories.
audit: setup
	mkdir -p build
	$(BIN)/uv export --quiet --locked --no-dev --no-emit-project --no-hashes --all-extras \
	    --output-file build/audit.txt
	$(BIN)/uv tool run --python $(BIN)/python pip-audit --strict --disable-pip --no-deps \
	    --requirement build/audit.txt

clean:
	rm -rf $(VENV) build runs
