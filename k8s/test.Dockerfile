# The image with what the tests need on top: Debian's servers and Java, and the lock's dev group.
# `make test-image` builds it from the stages of Dockerfile and runs the tests in it.
ARG IMAGE=penstock:dev
FROM ${IMAGE}-dependencies AS dependencies
FROM ${IMAGE}-project AS project

FROM ${IMAGE}-environment
USER root
ARG PACKAGES
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ${PACKAGES} \
 && rm -rf /var/lib/apt/lists/*
COPY --from=dependencies /opt/uv /opt/uv
COPY --from=dependencies /src /src
ENV PATH=/opt/penstock/bin:/opt/uv/bin:$PATH SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
RUN cd /src && UV_PROJECT_ENVIRONMENT=/opt/penstock uv sync --locked --inexact --no-install-project \
    --compile-bytecode --no-cache
# Last, so that a change of the code costs a copy.
COPY --from=project /opt/project /opt/penstock
USER 65532
WORKDIR /tests
CMD ["pytest"]
