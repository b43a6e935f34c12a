from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cuwheel.base.errors import LockError
from cuwheel.base.paths import ROOT
from cuwheel.build.toolchains.debian.lock_file import (
    DebianLock,
    DebianPackage,
    faults_of_debian_lock,
    read_debian_lock,
    render_debian_lock,
)
from cuwheel.build.toolchains.debian.source_file import read_source
from tests.support.toolchains.debian_archive import lock_of

SHIPPED = sorted((ROOT / "envs").glob("*/debian.yml"))
PACKAGE = DebianPackage(
    name="libtoy-dev",
    version="1:1.0~rc1-2+b1",
    architecture="amd64",
    path="pool/main/t/toy/libtoy-dev_1.0~rc1-2+b1_amd64.deb",
    size=1234,
    sha256="0" * 64,
)
DATA = dataclasses.replace(PACKAGE, name="toy-data", architecture="all", sha256="9" * 64)
LOCK = lock_of(PACKAGE, DATA)


def write(folder: Path, lock: DebianLock = LOCK) -> Path:
    path = folder / "gcc12" / "debian.lock"
    path.parent.mkdir(exist_ok=True)
    path.write_text(render_debian_lock(lock, "nox -s lock -- host-compiler:gcc12"))
    return path


def test_reads_what_was_written(tmp_path: Path) -> None:
    path = write(tmp_path)

    assert read_debian_lock(path) == LOCK
    assert len(path.read_text().splitlines()) == 9 + len(LOCK.packages["amd64"])


def test_packages_are_those_for_the_machine() -> None:
    with pytest.raises(LockError, match="no packages for aarch64") as caught:
        LOCK.packages_for("aarch64")

    assert "it has those of amd64" in caught.value.why
    assert LOCK.packages_for("x86_64") == (PACKAGE, DATA)


def test_digest_is_that_of_the_files() -> None:
    moved = dataclasses.replace(PACKAGE, path="pool/main/x/libtoy-dev.deb")
    changed = dataclasses.replace(PACKAGE, sha256="1" * 64)

    assert lock_of(moved, DATA).digest_for("x86_64") == LOCK.digest_for("x86_64")
    assert lock_of(changed, DATA).digest_for("x86_64") != LOCK.digest_for("x86_64")


_EDITS = {
    "size": ('"size": 1234', '"size": 1235', "edited by hand"),
    "date": ("2026", "2025", "edited by hand"),
    "sizeless": ('"size": 1234', '"size": 0', "`size` is invalid: '0'"),
    "huge": ('"size": 1234', f'"size": 1{"0" * 5000}', ""),
    "short hash": (f'"{"0" * 64}"', '"00"', "`sha256` is invalid: '00'"),
    "way up": ("pool/main/t", "pool/../t", "`path` is invalid"),
    "other folder": ("pool/main/t", "/etc/main/t", "`path` is invalid"),
    "query": ("pool/main/t", "pool/main?/t", "`path` is invalid"),
    "hidden": ("/libtoy-dev_", "/.libtoy-dev_", "`path` is invalid"),
    "no package": ("amd64.deb", "amd64.exe", "`path` is invalid"),
    "name": ('"name": "libtoy-dev"', '"name": "Lib Toy"', "`name` is invalid"),
    "other architecture": (
        '"architecture": "amd64"',
        '"architecture": "arm64"',
        "packages of other architectures below amd64",
    ),
    "unknown machine": ("  amd64:", "  riscv64:", "an unknown architecture: 'riscv64'"),
    "twice": ('"name": "toy-data"', '"name": "libtoy-dev"', "or one is there twice"),
    "unsorted": ('"name": "toy-data"', '"name": "a-data"', "aren't sorted"),
    "further field": ('"size": 1234', '"size": 1234, "url": "x"', "a package has the fields"),
    "missing field": ('"size": 1234, ', "", "a package has the fields"),
    "missing key": ("suite: toysuite\n", "", "another form than debian.lock: 'suite'"),
    "later form": ("form: 1", "form: 2", "its form is 2, not 1"),
    "no mapping": ("packages:\n  amd64:\n", "packages:\n", "another form than debian.lock"),
    "no YAML": ("form: 1", "form: [", "it is not valid YAML"),
}


@pytest.mark.parametrize("kind", _EDITS)
def test_refuses_edited_lock(tmp_path: Path, kind: str) -> None:
    old, new, fact = _EDITS[kind]
    path = write(tmp_path)
    path.write_text(path.read_text().replace(old, new, 1))

    with pytest.raises(LockError) as caught:
        read_debian_lock(path)

    assert caught.value.what == "gcc12/debian.lock can't be used"
    assert fact in caught.value.why
    assert "`nox -s lock -- host-compiler:gcc12`" in caught.value.fix


def test_refuses_lock_of_another_input(tmp_path: Path) -> None:
    path = write(tmp_path)
    source = path.with_name("debian.yml")
    source.write_text(
        "suite: bookworm\ncomponents: [main]\narchitectures: [amd64]\npackages: [toy]\n"
    )
    stale = faults_of_debian_lock(path)

    current = dataclasses.replace(LOCK, input_digest=read_source(source).input_digest)
    write(tmp_path, current)

    assert stale == ["debian.yml has changed since it was written"]
    assert faults_of_debian_lock(path) == []


def test_reports_missing_lock(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=r"cuda124/debian\.lock is missing") as caught:
        read_debian_lock(tmp_path / "cuda124" / "debian.lock")

    assert caught.value.fix == "nox -s lock -- toolchain:124:debian"


@pytest.mark.parametrize("source", SHIPPED, ids=lambda path: path.parent.name)
def test_shipped_lock_is_that_of_its_input(source: Path) -> None:
    path = source.with_name("debian.lock")
    declared = read_source(source)

    lock = read_debian_lock(path)

    assert tuple(lock.packages) == declared.architectures
    assert path.read_text() == render_debian_lock(lock, declared.command)
    wanted = {text.partition("=")[0] for text in declared.packages}
    names = [{package.name for package in packages} for packages in lock.packages.values()]
    assert [wanted - chosen for chosen in names] == [set(), set()]
