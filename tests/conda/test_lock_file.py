"""Conda locks in conda-lock's own format: its parser and its command line read them."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conda_lock.lockfile import parse_conda_lock_file

from cuwheel.conda.environment_file import read_source
from cuwheel.conda.lock_file import (
    CondaLock,
    CondaPackage,
    faults_of_conda_lock,
    has_changed_input,
    read_conda_lock,
    write_conda_lock,
)
from cuwheel.errors import LockError
from cuwheel.paths import ROOT
from cuwheel.system import process
from tests.support.channel import write_source

if TYPE_CHECKING:
    from collections.abc import Callable

SHIPPED = sorted((ROOT / "envs").glob("*/conda-lock.yml"))
SOURCES = sorted((ROOT / "envs").glob("*/environment.yml"))
CHANNEL = "https://conda.anaconda.org/conda-forge"


def toy(**changes: object) -> CondaPackage:
    facts = {
        "name": "toy",
        "version": "1.0",
        "build": "h123_0",
        "url": f"{CHANNEL}/linux-64/toy-1.0-h123_0.conda",
        "sha256": "a" * 64,
        "md5": "b" * 32,
        "size": 1234,
        "depends": (("__glibc", ">=2.17,<3.0.a0"), ("toy-data", "")),
    }
    return CondaPackage(**{**facts, **changes})  # type: ignore[arg-type]


def data(**changes: object) -> CondaPackage:
    url = f"{CHANNEL}/noarch/toy-data-1.0-0.conda"
    return toy(**{"name": "toy-data", "build": "0", "url": url, "depends": (), **changes})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "cuda130", "toy ==1.0")


@pytest.fixture
def lock(source: Path) -> CondaLock:
    return CondaLock(
        packages=(toy(), data()),
        channels=("conda-forge",),
        digest=read_source(source).digest,
        wanted=read_source(source).wanted,
        index="where the records came from",
    )


@pytest.fixture
def path(source: Path, lock: CondaLock) -> Path:
    written = source.with_name("conda-lock.yml")
    write_conda_lock(written, lock, command="nox -s lock -- toolchain:130")
    return written


def test_reads_what_it_wrote(path: Path, lock: CondaLock) -> None:
    assert read_conda_lock(path) == lock


def test_own_parser_of_conda_lock_reads_every_package(path: Path) -> None:
    parsed = parse_conda_lock_file(path)

    hashes = {package.url: package.hash.sha256 for package in parsed.package}
    assert hashes == {toy().url: "a" * 64, data().url: "a" * 64}


def test_own_parser_of_conda_lock_reads_dependencies(path: Path) -> None:
    parsed = parse_conda_lock_file(path)

    [needs] = [package.dependencies for package in parsed.package if package.name == "toy"]
    assert needs == {"__glibc": ">=2.17,<3.0.a0", "toy-data": ""}


def test_same_lock_is_the_same_bytes(path: Path, lock: CondaLock) -> None:
    before = path.read_bytes()

    write_conda_lock(path, lock, command="nox -s lock -- toolchain:130")

    assert path.read_bytes() == before


def test_names_command_that_writes_it(path: Path) -> None:
    assert path.read_text().startswith("# Written by `nox -s lock -- toolchain:130`")


def test_holds_package_that_is_known_by_md5_only(source: Path, lock: CondaLock) -> None:
    known_by_md5 = dataclasses.replace(lock, packages=(toy(sha256=""),))
    written = source.with_name("conda-lock.yml")

    write_conda_lock(written, known_by_md5, command="test")

    [package] = read_conda_lock(written).packages
    assert (package.sha256, package.md5) == ("", "b" * 32)


def test_sums_up_download_size(lock: CondaLock) -> None:
    assert lock.download_size == 2 * 1234


@pytest.mark.parametrize(
    ("was", "is_"),
    [
        ("a" * 64, "c" * 64),
        ("b" * 32, "c" * 32),
        ("'1234'", "'4321'"),
        ("linux-64/toy-1.0", "linux-64/toy-1.1"),
        (CHANNEL, "https://example.invalid/elsewhere"),
    ],
    ids=["sha256", "md5", "size", "file", "channel"],
)
def test_refuses_lock_that_was_edited(path: Path, was: str, is_: str) -> None:
    path.write_text(path.read_text().replace(was, is_))

    with pytest.raises(LockError, match="edited by hand") as caught:
        read_conda_lock(path)

    assert "nox -s lock" in caught.value.fix


def test_refuses_lock_with_a_package_taken_out(path: Path) -> None:
    start, *packages = path.read_text().split("\n- name: ")
    path.write_text("\n- name: ".join([start, *packages[:-1]]) + "\n")

    with pytest.raises(LockError, match="edited by hand"):
        read_conda_lock(path)


def test_sound_lock_has_no_faults(path: Path, source: Path) -> None:
    assert faults_of_conda_lock(path, source) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: write_source(folder, "toy ==1.1"),
        lambda folder: write_source(folder, "toy ==1.0", "more"),
        lambda folder: write_source(folder, "toy ==1.0", channels=("bioconda",)),
        lambda folder: write_source(folder, "toy ==1.0", system={"__glibc": "2.17"}),
    ],
    ids=["version", "package", "channel", "system"],
)
def test_notices_that_its_input_has_changed(
    path: Path, source: Path, change: Callable[[Path], Path]
) -> None:
    change(source.parent)

    assert faults_of_conda_lock(path, source) == ["its input has changed since it was written"]


def test_notices_that_it_is_missing(source: Path) -> None:
    assert faults_of_conda_lock(source.with_name("conda-lock.yml"), source) == ["it is missing"]


def test_names_lock_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=r"conda-lock\.yml is missing"):
        read_conda_lock(tmp_path / "conda-lock.yml")


@pytest.mark.parametrize("text", ["", "not: [a lock", "version: 1\n"])
def test_names_file_that_is_no_lock(tmp_path: Path, text: str) -> None:
    path = tmp_path / "conda-lock.yml"
    path.write_text(text)

    with pytest.raises(LockError, match="is no conda lock"):
        read_conda_lock(path)


def test_names_system_that_isnt_described(source: Path) -> None:
    source.with_name("virtual-packages.yml").unlink()

    with pytest.raises(LockError, match=r"virtual-packages\.yml is missing") as caught:
        read_source(source)

    assert "this machine must not matter" in caught.value.why


@pytest.mark.parametrize("text", ["dependencies: [", "channels: 7\ndependencies: [toy]\n"])
def test_names_input_that_cant_be_understood(source: Path, text: str) -> None:
    source.write_text(text)

    with pytest.raises(LockError, match="can't be understood"):
        read_source(source)


def test_reads_what_is_asked_for(tmp_path: Path) -> None:
    asked = ("toy ==1.0", "data >=2,<3", "any", "toy2 ==1.0 h1_0", "nvidia::cudnn ==9.0")

    assert read_source(write_source(tmp_path, *asked)).specs == asked


def test_refuses_what_no_channel_has(tmp_path: Path) -> None:
    path = write_source(tmp_path, "toy", "https://example.invalid/noarch/toy-1-0.conda")
    path.write_text(path.read_text().replace("- toy\n", "- toy\n- pip:\n  - requests\n"))

    with pytest.raises(LockError, match="asks for more than packages of channels") as caught:
        read_source(path)

    assert "{'pip': ['requests']}, https://example.invalid" in caught.value.why


def test_other_input_shows_without_conda_lock(path: Path, source: Path) -> None:
    before = has_changed_input(path)
    source.write_text(source.read_text().replace("1.0", "1.1"))

    assert (before, has_changed_input(path)) == (False, True)


def test_comment_is_no_change(path: Path, source: Path) -> None:
    source.write_text(f"# why\n{source.read_text()}")

    assert not has_changed_input(path)


@pytest.mark.parametrize("field", ["version", "build", "sha256", "md5", "size", "depends"])
def test_content_covers_every_fact(lock: CondaLock, field: str) -> None:
    first, *others = lock.packages
    other = {"size": 9, "depends": (("x", ""),)}.get(field, "9")

    changed = dataclasses.replace(first, **{field: other})  # type: ignore[arg-type]

    assert dataclasses.replace(lock, packages=(changed, *others)).content != lock.content


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.parent.name)
def test_shipped_lock_fits_its_source(source: Path) -> None:
    assert faults_of_conda_lock(source.with_name("conda-lock.yml"), source) == []


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda path: path.parent.name)
def test_shipped_lock_names_conda_forge_only(shipped: Path) -> None:
    channels = {package.channel for package in read_conda_lock(shipped).packages}

    assert channels == {CHANNEL}
    assert re.search(r"file:|/tmp/|/home/|/root/", shipped.read_text()) is None


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, str]:
    """What conda-lock's command line makes of each shipped lock."""
    program = Path(sys.executable).with_name("conda-lock")

    def render(shipped: Path) -> str:
        folder = tmp_path_factory.mktemp(shipped.parent.name)
        words = [str(program), "render", "-k", "explicit", "-p", "linux-64", str(shipped)]
        process.run(words, env={"PATH": os.defpath, "HOME": str(folder)}, cwd=folder)
        return (folder / "conda-linux-64.lock").read_text()

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(SHIPPED, pool.map(render, SHIPPED), strict=True))


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda path: path.parent.name)
def test_command_line_of_conda_lock_renders_shipped_lock(
    shipped: Path, rendered: dict[Path, str]
) -> None:
    _, _, explicit = rendered[shipped].partition("@EXPLICIT\n")

    # An explicit file holds MD5 sums: that is what conda itself checks.
    packages = read_conda_lock(shipped).packages
    assert sorted(explicit.split()) == sorted(f"{one.url}#{one.md5}" for one in packages)
