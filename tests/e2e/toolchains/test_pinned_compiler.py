"""Builds with a pinned host compiler on a machine that has none."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.support.engine import Engine, make_engine
from tests.support.requirements import require

pytestmark = pytest.mark.e2e

# Every compiler, assembler and linker of the machine is replaced by a file that can't be started.
_WITHOUT_COMPILERS = """
for program in /usr/bin/*gcc* /usr/bin/*g++* /usr/bin/cc /usr/bin/c++ /usr/bin/*-cpp* /usr/bin/as \
    /usr/bin/*-as /usr/bin/ld /usr/bin/ld.[bg]* /usr/bin/*-ld /usr/bin/*-ld.* /usr/bin/strip; do
    [ ! -e "$program" ] || mount --bind /dev/null "$program"
done
exec "$@"
"""
WITHOUT_COMPILERS = ("unshare", "--mount", "sh", "-c", _WITHOUT_COMPILERS, "sh")


@pytest.fixture(params=["tiny-capi", "tiny-skbuild"])
def package(request: pytest.FixtureRequest) -> str:
    require("root", "that pinned compilers need none of the machine's")
    require("debian-archive", "that pinned compilers need none of the machine's")
    return str(request.param)


def build(engine: Engine, package: str, *options: str) -> Path:
    done = engine.build(package, *options)
    assert done.status == 0, done.output
    [wheel] = engine.wheels()
    return wheel


def bare(folder: Path, project: Path, cache: Path) -> Engine:
    """An engine on a machine without compilers."""
    engine = make_engine(folder, project, cache)
    return Engine(**{**vars(engine), "within": WITHOUT_COMPILERS})


def test_machine_without_compilers_builds_the_same_wheel(
    package: str, project: Path, shared_cache: Path, tmp_path: Path
) -> None:
    wheels = [
        build(make_engine(tmp_path / "with", project, shared_cache), package),
        build(bare(tmp_path / "without", project, shared_cache), package, "--no-cache"),
    ]

    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    assert _oldest_glibc(wheels[0]) <= 31  # of Debian 11


def _oldest_glibc(wheel: Path) -> int:
    """Return the minor release of glibc 2 in a wheel's platform tag."""
    return int(wheel.stem.rpartition("manylinux_2_")[2].split("_")[0])


def test_statement_names_the_compilers_packages(
    project: Path, shared_cache: Path, tmp_path: Path
) -> None:
    require("debian-archive", "that a statement names the compiler's packages")
    wheel = build(make_engine(tmp_path, project, shared_cache), "tiny-capi")

    statement = json.loads(wheel.with_name(f"{wheel.name}.provenance.json").read_text())
    text = json.dumps(statement)
    assert "pkg:deb/debian/g++-10@" in text
    assert '"host_compiler": "gcc10"' in text


def test_sandbox_or_not_gives_the_same_bytes(
    project: Path, shared_cache: Path, tmp_path: Path
) -> None:
    require("debian-archive", "that the sandbox doesn't change what a pinned compiler makes")
    require("sandbox", "that the sandbox doesn't change what a pinned compiler makes")
    digests = {
        hashlib.sha256(
            build(
                make_engine(tmp_path / kind, project, shared_cache),
                "tiny-capi",
                *("--sandbox", kind, "--no-cache"),
            ).read_bytes()
        ).hexdigest()
        for kind in ("none", "unshare")
    }

    assert len(digests) == 1
