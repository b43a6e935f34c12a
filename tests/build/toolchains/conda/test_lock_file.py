"""Conda locks, read as conda-lock reads them, and their errors."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import LockError
from cuwheel.build.toolchains.conda.lock_file import (
    CondaLock,
    document_of_lock,
    faults_of_conda_lock,
    lock_of_document,
    read_conda_lock,
)
from tests.support.toolchains.channel import write_lock, write_source
from tests.support.toolchains.conda_locks import (
    CHANNEL,
    SHIPPED,
    SOURCES,
    make_lock,
    read_with_conda_lock,
    toy,
)


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
    ("old", "new"),
    [
        ("a" * 64, "c" * 64),
        ("b" * 32, "c" * 32),
        ("'1234'", "'4321'"),
        ("linux-64/toy-1.0", "linux-64/toy-1.1"),
        (CHANNEL, "https://example.invalid/elsewhere"),
        ("- name: toy-data\n", "- name: other\n"),
    ],
    ids=["sha256", "md5", "size", "file", "channel", "name"],
)
def test_refuses_lock_that_was_edited(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))

    with pytest.raises(LockError, match="edited by hand") as caught:
        read_conda_lock(path)

    assert "nox -s lock" in caught.value.fix


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


def test_notices_that_it_states_another_input(path: Path, source: Path, lock: CondaLock) -> None:
    write_lock(path, dataclasses.replace(lock, input_digest="0" * 64))

    assert faults_of_conda_lock(path, source) == ["its input has changed since it was written"]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("a" * 64, "c" * 64, "it was edited by hand"),
        ("version: 1\n", "version: 2\n", "its version is 2, not 1"),
    ],
)
def test_notices_that_it_was_edited(
    path: Path, source: Path, old: str, new: str, fault: str
) -> None:
    path.write_text(path.read_text().replace(old, new))

    assert faults_of_conda_lock(path, source) == [fault]


def test_notices_that_it_is_missing(source: Path) -> None:
    assert faults_of_conda_lock(source.with_name("conda-lock.yml"), source) == ["it is missing"]


def test_names_lock_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=r"conda-lock\.yml is missing"):
        read_conda_lock(tmp_path / "conda-lock.yml")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it has another form than conda-lock's v1"),
        (b"7", "it has another form than conda-lock's v1"),
        (b"- a", "it has another form than conda-lock's v1"),
        (b"not: [a lock", "it is not valid YAML"),
        (b"\xff\xfe\x00", "it is not valid YAML"),
        (b"version: 1\n", "it has another form than conda-lock's v1: 'metadata'"),
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
    """A lock with features that the shipped ones lack."""
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
    """conda-lock's reading of all of them; of the odd one under None."""
    folder = tmp_path_factory.mktemp("theirs")
    read = read_with_conda_lock(conda_lock, folder, locks=[odd, *SHIPPED])
    return {None: read[str(odd)], **{path: read[str(path)] for path in SHIPPED}}


@pytest.mark.parametrize(
    "path", [None, *SHIPPED], ids=lambda path: path.parent.name if path else "odd"
)
def test_conda_lock_reads_the_same(
    path: Path | None, odd: Path, theirs: dict[Path | None, Any]
) -> None:
    lock, document = read_conda_lock(path or odd), theirs[path]

    ours = {
        package.name: {
            "version": package.version,
            "url": package.url,
            "sha256": package.sha256,
            "md5": package.md5,
            "depends": [list(pair) for pair in package.depends],
        }
        for package in lock.packages
    }
    sizes = {f"size {package.file_name}": f"{package.size}" for package in lock.packages}
    stated = {
        "index": lock.index,
        "files": lock.files,
        "input": lock.input_digest,
        "content": lock.content,
        **{name: size for name, size in sizes.items() if size != "0"},
    }
    assert ours == document["packages"]
    assert stated == document["stated"]
    assert (list(lock.channels), lock.digest) == (document["channels"], document["digest"])
    # An explicit file holds MD5 sums: that is what conda itself checks.
    explicit = sorted(f"{package.url}#{package.md5}" for package in lock.packages)
    assert explicit == sorted(document["explicit"])


@pytest.fixture
def document(lock: CondaLock) -> dict[str, Any]:
    return document_of_lock(lock)


@pytest.mark.parametrize("lacking", ["sha256", "md5", "size"])
def test_package_may_lack(lock: CondaLock, lacking: str) -> None:
    bare = toy(**{lacking: 0 if lacking == "size" else ""})
    changed = dataclasses.replace(lock, packages=(bare,))

    assert lock_of_document(document_of_lock(changed))[0] == changed


def test_sorts_packages_by_name(lock: CondaLock, document: dict[str, Any]) -> None:
    document["package"].reverse()

    assert lock_of_document(document)[0] == lock


def test_build_comes_from_file_name_unless_stated(document: dict[str, Any]) -> None:
    document["package"][0]["build"] = "other_1"

    first, second = lock_of_document(document)[0].packages

    assert (first.build, second.build) == ("other_1", "0")


def _drop(*keys: str | int) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        del content[keys[-1]]

    return change


def _put(*keys: str | int, value: object) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


_HASH = ("package", 0, "hash")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_put("version", value=2), "its version is 2, not 1"),
        (_drop("version"), "another form than conda-lock's v1: 'version'"),
        (_drop("package"), "another form than conda-lock's v1: 'package'"),
        (_put("package", 0, value="toy"), "another form than conda-lock's v1"),
        (_drop("package", 0, "name"), "another form than conda-lock's v1: 'name'"),
        (_drop("package", 0, "url"), "another form than conda-lock's v1: 'url'"),
        (_put("package", 0, "version", value=1.0), "toy: `version` is invalid: 1.0"),
        (_put("package", 0, "url", value="toy.conda"), "toy: `url` is invalid: 'toy.conda'"),
        (_put("package", 0, "url", value="https://c/win-64/toy-1-0.conda"), "toy: `url` is"),
        (_put("package", 0, "url", value="https://c/noarch/toy-1-0.zip"), "toy: `url` is invalid"),
        (_put("package", 0, "manager", value="pip"), "toy: `manager` is invalid: 'pip'"),
        (_put("package", 0, "platform", value="osx-64"), "toy: `platform` is invalid: 'osx-64'"),
        (_put("package", 0, "dependencies", value=["x"]), "another form than conda-lock's v1"),
        (_put("package", 0, "dependencies", "x", value=1), "`x` is invalid: 1"),
        (_put("package", 1, "name", value="toy"), "package toy is listed twice"),
        (_drop(*_HASH), "another form than conda-lock's v1: 'hash'"),
        (_put(*_HASH, value={}), "package toy has no hash"),
        (_put(*_HASH, value={"md5": "", "sha256": None}), "package toy has no hash"),
        (_put(*_HASH, "sha256", value="a" * 63), "`sha256` is invalid"),
        (_put(*_HASH, "sha256", value="A" * 64), "`sha256` is invalid"),
        (_put(*_HASH, "md5", value=7), "`md5` is invalid: 7"),
        (_put("metadata", value=7), "another form than conda-lock's v1"),
        (_drop("metadata", "channels"), "another form than conda-lock's v1: 'channels'"),
        (_put("metadata", "channels", value=[{}]), "another form than conda-lock's v1: 'url'"),
        (_put("metadata", "platforms", value=["osx-64"]), "it isn't for linux-64"),
        (_drop("metadata", "content_hash", "linux-64"), "conda-lock's v1: 'linux-64'"),
        (_put("metadata", "custom_metadata", "files", value=7), "`files` is invalid: 7"),
        (
            _put("metadata", "custom_metadata", "size toy-1.0-h123_0.conda", value="1 MB"),
            "`size toy-1.0-h123_0.conda` is invalid: '1 MB'",
        ),
    ],
)
def test_names_what_is_wrong(
    document: dict[str, Any], change: Callable[[Any], None], fault: str
) -> None:
    change(document)

    with pytest.raises(ValueError, match=re.escape(fault)):
        lock_of_document(document)
