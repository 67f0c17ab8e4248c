# The image with what its tests need on top: Java, make and PyTorch, and the lock's dev group. Those
# that need servers or a browser run outside.
# `make test-image` builds it from the stages of Dockerfile and runs the tests in it.
ARG IMAGE=penstock:dev
FROM ${IMAGE}-project AS project
RUN uv export --locked --quiet --no-emit-project --output-file /requirements.txt

FROM ${IMAGE}-environment
USER root
# Debian's PyTorch, for CPUs, 0.9 GB: PyPI's brings gigabytes of CUDA. A test's process finds it.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
    default-jre-headless make python3-torch \
 && rm -rf /var/lib/apt/lists/*
COPY --from=project /opt/uv /opt/uv
COPY --from=project /requirements.txt /requirements.txt
RUN SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt VIRTUAL_ENV=/opt/penstock \
    /opt/uv/bin/uv pip install --no-cache --compile-bytecode \
    --require-hashes --requirement /requirements.txt
# Last, so that a change of the code costs a copy.
COPY --from=project /opt/project /opt/penstock
# Not in the wheel, and tested all the same.
COPY --from=project /src/benchmarks /opt/penstock/lib/python3.13/site-packages/penstock/benchmarks
ENV PATH=$PATH:/opt/uv/bin
USER 65532
WORKDIR /tests
CMD ["pytest"]
