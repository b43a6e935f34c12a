# cuwheel in an image: what it needs of a machine (tools), and itself with its environment (cuwheel).
#
#   podman build --build-arg BASE=docker.io/library/python@sha256:… --tag cuwheel .
#
# BASE is any Debian or Ubuntu image, with or without Python 3.10 or newer; name it with its digest.
# docs/how-to/containers.md
ARG BASE
FROM ${BASE} AS tools

# git reads the times of sources; bubblewrap makes the sandbox, where a container may have one.
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        bubblewrap ca-certificates g++ git \
        $(python3 -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null \
            || echo python3 python3-venv python3-dev) \
    && rm -rf /var/lib/apt/lists/*

COPY envs/nox.lock /tmp/nox.lock
RUN python3 -m venv /opt/nox \
    && /opt/nox/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes \
        --requirement /tmp/nox.lock \
    && rm /tmp/nox.lock

# The cache lies in the home folder, which a devcontainer gives to whoever starts it; a volume there
# keeps toolchains and compiles from one container to the next.
RUN useradd --create-home --shell /bin/bash --uid 1000 cuwheel \
    && install --directory --owner cuwheel --group cuwheel /src /src/cuwheel \
        /home/cuwheel/.cache /home/cuwheel/.cache/cuwheel
ENV PATH=/opt/nox/bin:$PATH
USER cuwheel
WORKDIR /src/cuwheel

FROM tools AS cuwheel
COPY --chown=cuwheel:cuwheel . .
# The engine's environment, from its lock: the first build then begins at once.
RUN nox --session index -- --help
ENTRYPOINT ["nox"]
CMD ["--list"]
