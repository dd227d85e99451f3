ARG PYTHON_IMAGE=python:3.13-slim-trixie

FROM ${PYTHON_IMAGE} AS build
COPY hack/uv.txt .
RUN pip install --no-cache-dir --require-hashes --requirement uv.txt
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV=/opt/drabridge
WORKDIR /src
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY operator operator
# The lock holds the tools for tests, too. As a constraint it adds none of them, and still decides version and hash of
# all that the package needs, at run time and to be built.
RUN uv venv "$VIRTUAL_ENV" \
 && uv pip install --constraint requirements.lock --build-constraint requirements.lock .

FROM ${PYTHON_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="drabridge" \
      org.opencontainers.image.description="Lets unmodified Pods that ask for extended resources be served by Dynamic Resource Allocation" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN pip uninstall --yes --quiet --root-user-action=ignore pip
COPY --from=build /opt/drabridge /opt/drabridge
ENV PATH=/opt/drabridge/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, so that Kubernetes can tell that it is not root.
USER 65532:65532
EXPOSE 9443 8080
ENTRYPOINT ["drabridge"]
CMD ["operator"]
