# The commands of the README. Each sets up what it needs; a second time that is quick.
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.penstock-set-up
IMAGE ?= penstock:dev
KFP := build/kfp
BUILD := docker build --network host --force-rm --quiet
# A file of tests runs in one worker, so that what its tests share is made once, and the files that
# run whole pipelines begin first (tests/conftest.py). A worker holds TensorFlow: no more than four.
PYTEST := pytest --numprocesses logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: run test test-fast test-ci test-faults test-here check typecheck docs dist format setup clean
.PHONY: base-image image image-gpu image-for-tests test-image test-containers
.PHONY: audit cluster cluster-down conformance

run: setup
	$(BIN)/penstock run taxi

test: setup
	$(BIN)/$(PYTEST) -m "not faults and not ci and not containers"

test-fast: setup
	$(BIN)/$(PYTEST) -m "not slow and not faults and not ci and not containers"

# Those that need servers, stores, Spark or a browser (.ci/packages), and the longest.
test-ci: setup
	$(BIN)/$(PYTEST) -m ci

# The tests of every promise in docs/reliability.md: kills, full disks, broken stores and servers,
# damaged shards, loads. They mount a tmpfs, so they need root, and the tools of test-ci.
PROMISED := $(addprefix tests/,$(shell grep -oE '[a-z0-9_/]+/test_[a-z0-9_]+\.py' docs/reliability.md | sort -u))
test-faults: setup
	$(BIN)/$(PYTEST) -m "not containers" $(PROMISED)

# What CI runs outside the image, in one session, half a minute of which is spent before its first
# test: test, and of test-faults what test-image, which has no root, leaves out.
test-here: setup
	$(BIN)/$(PYTEST) -m "(slow or not faults) and not ci and not containers"

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
	    --build-arg PACKAGES="$$(grep -v '^#' .ci/packages | xargs)" --tag $(IMAGE)-test .
	@docker image prune --force --filter label=org.opencontainers.image.title=penstock >/dev/null

# The tests inside the image, Python 3.13 and TFX 1.21, as its user, without network. Spark wants a
# host name that has an address.
test-image: image-for-tests
	docker run --rm --network none --hostname localhost --read-only --volume /tmp --volume $(CURDIR):/tests:ro \
	    --env PYTEST_ADDOPTS $(IMAGE)-test \
	    $(PYTEST) -m "not (faults and slow) and not containers and not outside_image" -p no:cacheprovider

# The compiled pipeline in containers, by the local engine of the newest kfp. Three files at once, as
# each now and then waits for Docker or for a server.
test-containers: setup $(KFP)/bin/kfp
	PENSTOCK_IMAGE=$(IMAGE) KFP_PYTHON=$(abspath $(KFP))/bin/python \
	    $(BIN)/$(PYTEST) --numprocesses 3 -m containers tests/containers

$(KFP)/bin/kfp:
	python3 -m venv $(KFP)
	$(KFP)/bin/pip install --quiet --upgrade "kfp>=2.14" docker

# One real node of Kubernetes with Kubeflow Pipelines on this machine, and the checks on it; needs root,
# Debian, Go and a Docker daemon: k8s/cluster/README.md.
cluster: setup
	k8s/cluster/up

cluster-down:
	k8s/cluster/down

conformance:
	python3 k8s/conformance --kubeconfig build/cluster/kubeconfig --image $(IMAGE) \
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
