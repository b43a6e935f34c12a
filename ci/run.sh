#!/usr/bin/env bash
# What CI runs, from a clean clone on a bare Debian: lint, the long tests, and at the end the
# README's own `pip install nox && nox -s tests`. CUWHEEL_CACHE may name a cache that is kept
# between runs; CUWHEEL_SKIP_E2E=1 leaves the long tests out.
set -euo pipefail
cd "$(dirname "$0")/.."

find_python() {
    local name
    for name in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}; do
        # A name on PATH doesn't have to run: pyenv's shims can be empty.
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
}

has_headers() {
    "$1" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))'
}

install_what_is_missing() {
    local python missing=()
    python=$(find_python)
    [ -n "$python" ] || missing+=(python3 python3-venv python3-dev)
    [ -z "$python" ] || "$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    [ -z "$python" ] || has_headers "$python" || missing+=(python3-dev)
    command -v g++ >/dev/null || missing+=(g++)
    command -v strip >/dev/null || missing+=(binutils)
    # For end-to-end tests, which are skipped where these can't be had: jax-finufft's, the remote
    # compile cache's, the sandbox's.
    if [ "${CUWHEEL_SKIP_E2E:-}" != 1 ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        [ -e /usr/include/fftw3.h ] || missing+=(libfftw3-dev)
        command -v redis-server >/dev/null || missing+=(redis-server)
        command -v bwrap >/dev/null || missing+=(bubblewrap)
    fi
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "ci: install these first: ${missing[*]}" >&2
        return 1
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

say_free_disk() {
    df -h --output=avail,target "$folder" "$cache" |
        awk 'NR > 1 && !seen[$0]++ { print "ci: " $1 " free on the disk of " $2 }'
}

# Each part gets an empty folder for temporary files: what a failed one leaves is no other's burden.
prepare() {
    rm -rf "$TMPDIR"
    mkdir "$TMPDIR"
    say_free_disk
}

status=0
step() {
    local started=$SECONDS
    prepare
    "$@" || { status=1; echo "ci: FAILED: $*"; }
    echo "ci: $((SECONDS - started)) s: $*"
}

install_what_is_missing
cache=${CUWHEEL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cuwheel}
mkdir -p "$cache"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(find_python)" -m venv "$folder/venv"
PATH="$folder/venv/bin:$PATH"
pip install --quiet nox
export TMPDIR="$folder/tmp"

step nox -s lint
[ "${CUWHEEL_SKIP_E2E:-}" = 1 ] || step nox -s tests-e2e
# Last, so that pytest's own count ends the log.
prepare
nox -s tests || status=1
exit "$status"
