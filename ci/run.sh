#!/usr/bin/env bash
# What CI runs, from a clean clone on a bare Debian: lint, the README's `nox -s tests` on the oldest
# Python where this machine has it, the long tests on the first that is found. A step that fails
# doesn't keep the next from running, and shows in the exit status; the last lines are pytest's own
# counts. Up to three tests that failed run once more, alone: those that pass then are named as
# unstable, and don't fail the run. CUWHEEL_CACHE may name a cache that is kept between runs; CUWHEEL_TEST_PYTHONS="3.10 3.13"
# has the fast tests run on each of these; CUWHEEL_SKIP_E2E=1 leaves the long tests out;
# CUWHEEL_REQUIRE names what the machine must have.
set -euo pipefail
cd "$(dirname "$0")/.."

# What a Debian container has for root: tests/support/requirements.py.
export CUWHEEL_REQUIRE=${CUWHEEL_REQUIRE-sandbox,bwrap,namespaces,seccomp,cgroup,redis,slurm,cmake,gold,openssl,podman,systemd,nginx,chromium,cross-gcc,qemu,arm64-root,apt,debian-archive}

room=30 # GiB that the steps may need: toolkits, packages, what the long tests build

# Releases of Python that the fast tests run on; without any of them, the first that is found.
read -ra test_pythons <<<"${CUWHEEL_TEST_PYTHONS-3.10}"

find_python() {
    local name
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python3.10}; do
        # A name on PATH doesn't have to run: pyenv's shims can be empty.
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
}

find_release() {
    local name
    for name in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if "$name" -c 'import ensurepip, venv' 2>/dev/null; then
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
    local python program missing=()
    python=$(find_python)
    [ -n "$python" ] || missing+=(python3 python3-venv python3-dev)
    [ -z "$python" ] || "$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    [ -z "$python" ] || has_headers "$python" || missing+=(python3-dev)
    for program in g++:g++ strip:binutils git:git cmake:cmake openssl:openssl gpg:gnupg \
        fish:fish zsh:zsh redis-server:redis-server bwrap:bubblewrap munged:munge slurmctld:slurmctld slurmd:slurmd \
        sbatch:slurm-client bindfs:bindfs podman:podman runc:runc debootstrap:debootstrap \
        systemd-analyze:systemd nginx:nginx-light chromium:chromium \
        aarch64-linux-gnu-g++:g++-aarch64-linux-gnu qemu-aarch64-static:qemu-user-static; do
        command -v "${program%%:*}" >/dev/null || missing+=("${program#*:}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "ci: install these first: ${missing[*]}" >&2
        return 1
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# Each step gets an empty folder for temporary files: what a failed one leaves is no other's burden.
# A cache that is kept between runs is made smaller where the long tests would fill the disk.
prepare() {
    local free
    rm -rf "$TMPDIR"
    mkdir "$TMPDIR"
    free=$(df --output=avail -B1G "$cache" | tail -n 1)
    [ "$free" -ge "$room" ] || PATH="$1/bin:$PATH" nox -s cache -- --prune --size 15G || true
    df -h --output=avail,target "$folder" "$cache" |
        awk 'NR > 1 && !seen[$0]++ { print "ci: " $1 " free on the disk of " $2 }'
}

# nox, pinned, in an environment of the Python that the sessions then run with.
make_nox() {
    "$1" -m venv "$2"
    "$2/bin/pip" install --quiet --disable-pip-version-check --require-hashes \
        --requirement envs/nox.lock
}

failed=()
counted=()
step() {
    local session=$1 name=$1${2:+, Python $2} venv=$folder/venv${2:-} started=$SECONDS
    prepare "$venv"
    rm -rf .pytest_cache
    PATH="$venv/bin:$PATH" nox -s "$session" 2>&1 | tee "$folder/$name.log" ||
        again "$session" "$name" "$venv" || failed+=("$name")
    echo "ci: $((SECONDS - started)) s: nox -s $name"
}

# On a busy machine a race shows once in ten thousand tests; a fault shows twice.
again() {
    local tests count
    tests=$(grep -sE '^(FAILED|ERROR) tests/' "$folder/$2.log" | cut -d ' ' -f 2 | sort -u)
    count=$(wc -w <<<"$tests")
    [ "$count" -ge 1 ] && [ "$count" -le 3 ] || return 1
    counted=("$2, again" "${counted[@]}")
    PATH="$3/bin:$PATH" nox -s "$1" -- --last-failed -n 0 2>&1 | tee "$folder/$2, again.log" ||
        return 1
    echo "$tests" >>"$unstable"
}

# The last line that pytest wrote about a step: how many passed, failed, were skipped.
count_of() {
    echo "ci: nox -s $1:"
    grep -sE '^=+ .* in [0-9.]+s( \(.*\))? =+$' "$folder/$1.log" | tail -n 1 ||
        echo "ci: pytest printed no summary"
}

install_what_is_missing
cache=${CUWHEEL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cuwheel}
mkdir -p "$cache"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unstable=$folder/unstable # the tests that passed the second time
make_nox "$(find_python)" "$folder/venv"
export TMPDIR="$folder/tmp"

step lint
for release in "${test_pythons[@]}"; do
    python=$(find_release "$release")
    if [ -z "$python" ]; then
        echo "ci: this machine has no Python $release: tests on it are skipped"
        continue
    fi
    counted=("tests, Python $release" "${counted[@]}")
    if make_nox "$python" "$folder/venv$release"; then
        step tests "$release"
    else
        failed+=("tests, Python $release")
    fi
done
if [ ${#counted[@]} -eq 0 ]; then
    counted=(tests)
    step tests
fi
if [ "${CUWHEEL_SKIP_E2E:-}" != 1 ]; then
    counted=(tests-e2e "${counted[@]}")
    step tests-e2e
fi

[ ! -e "$unstable" ] || sed 's/^/ci: unstable, passed only alone and the second time: /' "$unstable"
for name in "${failed[@]}"; do echo "ci: FAILED: nox -s $name"; done
echo "ci: $SECONDS s in total"
for name in "${counted[@]}"; do count_of "$name"; done
[ ${#failed[@]} -eq 0 ]
