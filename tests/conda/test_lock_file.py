"""Conda locks are read, and what is wrong with them is said; conda-lock reads the same in them."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.conda.lock_file import faults_of_conda_lock, has_changed_input, read_conda_lock
from cuwheel.errors import LockError
from tests.support.channel import write_lock, write_source
from tests.support.conda_locks import (
    CHANNEL,
    SHIPPED,
    SOURCES,
    make_lock,
    read_with_conda_lock,
    toy,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuwheel.conda.records import CondaLock


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "cuda130", "toy ==1.0")


@pytest.fixture
def lock(source: Path) -> CondaLock:
    return make_lock(source)


@pytest.fixture
def path(source: Path, lock: CondaLock) -> Path:
    return write_lock(source.with_name("conda-lock.yml"), lock)


def test_reads_lock(path: Path, lock: CondaLock) -> None:
    assert read_conda_lock(path) == lock


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


@pytest.mark.parametrize("field", ["digest", "input_digest"])
def test_notices_that_it_states_another_input(
    path: Path, source: Path, lock: CondaLock, field: str
) -> None:
    write_lock(path, dataclasses.replace(lock, **{field: "0" * 64}))  # type: ignore[arg-type]

    assert faults_of_conda_lock(path, source) == ["its input has changed since it was written"]


def test_notices_that_it_was_edited(path: Path, source: Path) -> None:
    path.write_text(path.read_text().replace("a" * 64, "c" * 64))

    assert faults_of_conda_lock(path, source) == ["it was edited by hand"]


def test_notices_that_it_is_malformed(path: Path, source: Path) -> None:
    path.write_text(path.read_text().replace("version: 1\n", "version: 2\n"))

    assert faults_of_conda_lock(path, source) == ["its version is 2, not 1"]


def test_notices_that_it_is_missing(source: Path) -> None:
    assert faults_of_conda_lock(source.with_name("conda-lock.yml"), source) == ["it is missing"]


def test_names_lock_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=r"conda-lock\.yml is missing"):
        read_conda_lock(tmp_path / "conda-lock.yml")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "the lock is not a mapping"),
        (b"not: [a lock", "it is not valid YAML"),
        (b"\xff\xfe\x00", "it is not valid YAML"),
        (b"version: 1\n", "the lock has no list of package"),
        (b"a: !!python/object:os.system {}", "it is not valid YAML"),
    ],
)
def test_names_file_that_is_no_lock(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "cuda130" / "conda-lock.yml"
    path.parent.mkdir()
    path.write_bytes(content)

    with pytest.raises(LockError, match="is not a valid conda lock") as caught:
        read_conda_lock(path)

    assert why in caught.value.why
    assert "nox -s lock -- toolchain:130:conda" in caught.value.fix


def test_names_first_faults_of_many(path: Path) -> None:
    path.write_text(re.sub(r"^  (md5|sha256|url|hash|version|name): .*\n", "", path.read_text()))
    path.write_text(re.sub(r"^- name: .*", "- nonsense: 1", path.read_text(), flags=re.MULTILINE))

    with pytest.raises(LockError) as caught:
        read_conda_lock(path)

    assert len(caught.value.why.splitlines()) <= 6


def test_other_input_shows_at_once(path: Path, source: Path) -> None:
    before = has_changed_input(path)
    source.write_text(source.read_text().replace("1.0", "1.1"))

    assert (before, has_changed_input(path)) == (False, True)


def test_comment_is_no_change(path: Path, source: Path) -> None:
    source.write_text(f"# why\n{source.read_text()}")

    assert not has_changed_input(path)


def test_lock_can_be_used_without_its_input(path: Path, source: Path) -> None:
    source.unlink()

    assert not has_changed_input(path)


def test_names_input_that_is_no_yaml(path: Path, source: Path) -> None:
    source.write_text("dependencies: [")

    with pytest.raises(LockError, match=r"cuda130/environment\.yml is invalid"):
        has_changed_input(path)


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
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lock with what the shipped ones lack."""
    source = write_source(tmp_path_factory.mktemp("odd") / "cuda130", "toy ==1.0")
    spaced = toy(name="a", depends=(("b", "1.0 h1_0"), ("yes", "1.10"), ("null", "")))
    unsized = toy(name="z", size=0, url=f"{CHANNEL}/noarch/z-1.0-h123_0.tar.bz2")
    packages = (spaced, toy(sha256=""), unsized)
    lock = dataclasses.replace(make_lock(source), packages=packages)
    return write_lock(source.with_name("conda-lock.yml"), lock)


@pytest.fixture(scope="module")
def theirs(
    odd: Path, conda_lock: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[Path | None, Any]:
    """What conda-lock reads in all of them; the odd one under None."""
    folder = tmp_path_factory.mktemp("theirs")
    read = read_with_conda_lock(conda_lock, folder, locks=[odd, *SHIPPED])
    return {None: read[str(odd)], **{path: read[str(path)] for path in SHIPPED}}


LOCKS = pytest.mark.parametrize(
    "path", [None, *SHIPPED], ids=lambda path: path.parent.name if path else "odd"
)


@LOCKS
def test_both_readers_find_the_same_packages(
    path: Path | None, odd: Path, theirs: dict[Path | None, Any]
) -> None:
    ours = {
        one.name: {
            "version": one.version,
            "url": one.url,
            "sha256": one.sha256,
            "md5": one.md5,
            "depends": [list(pair) for pair in one.depends],
        }
        for one in read_conda_lock(path or odd).packages
    }

    assert ours == theirs[path]["packages"]


@LOCKS
def test_both_readers_find_the_same_metadata(
    path: Path | None, odd: Path, theirs: dict[Path | None, Any]
) -> None:
    lock = read_conda_lock(path or odd)

    found = theirs[path]
    stated = [found["stated"][name] for name in ("index", "files", "input", "content")]
    assert [lock.index, lock.files, lock.input_digest, lock.content] == stated
    assert (list(lock.channels), lock.digest) == (found["channels"], found["digest"])
    sizes = {name: int(size) for name, size in found["stated"].items() if name.startswith("size ")}
    assert {f"size {one.file_name}": one.size for one in lock.packages if one.size} == sizes


@LOCKS
def test_command_line_of_conda_lock_renders_it(
    path: Path | None, odd: Path, theirs: dict[Path | None, Any]
) -> None:
    # An explicit file holds MD5 sums: that is what conda itself checks.
    packages = read_conda_lock(path or odd).packages
    assert sorted(theirs[path]["explicit"]) == sorted(f"{one.url}#{one.md5}" for one in packages)
