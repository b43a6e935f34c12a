"""Documents of conda locks, each wrong in one thing, and records that become one and come back."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.conda.lock_document import document_of_lock, lock_of_document
from tests.support.channel import write_source
from tests.support.conda_locks import make_lock, toy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuwheel.conda.records import CondaLock


@pytest.fixture
def lock(tmp_path: Path) -> CondaLock:
    return make_lock(write_source(tmp_path, "toy"))


@pytest.fixture
def document(lock: CondaLock) -> dict[str, Any]:
    return document_of_lock(lock)


def faults_of(content: object) -> list[str]:
    faults: list[str] = []
    lock_of_document(content, faults)
    return faults


def test_comes_back_as_it_was(lock: CondaLock, document: dict[str, Any]) -> None:
    faults: list[str] = []

    assert lock_of_document(document, faults) == (lock, lock.content)
    assert faults == []


@pytest.mark.parametrize("lacking", ["sha256", "md5", "size"])
def test_package_may_lack(lock: CondaLock, lacking: str) -> None:
    bare = toy(**{lacking: 0 if lacking == "size" else ""})
    changed = dataclasses.replace(lock, packages=(bare,))

    faults: list[str] = []

    assert lock_of_document(document_of_lock(changed), faults)[0] == changed
    assert faults == []


def test_sorts_packages_by_name(lock: CondaLock, document: dict[str, Any]) -> None:
    document["package"].reverse()

    assert lock_of_document(document, [])[0] == lock


def test_build_comes_from_file_name_unless_stated(document: dict[str, Any]) -> None:
    document["package"][0]["build"] = "other_1"

    first, second = lock_of_document(document, [])[0].packages

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
        (_drop("version"), "its version is None, not 1"),
        (_put("packages", value=[]), 'the lock has a field `packages`; did you mean "package"?'),
        (_drop("package"), "the lock has no list of package"),
        (_put("package", value={}), "the lock has no list of package"),
        (_put("package", 0, value="toy"), "package 0 is not a mapping"),
        (_drop("package", 0, "name"), "package 0 has no name"),
        (_drop("package", 0, "url"), "package toy has no url"),
        (_drop("package", 0, "version"), "package toy has no version"),
        (_put("package", 0, "version", value=1.0), "package toy: its version is invalid: 1.0"),
        (_put("package", 0, "url", value="toy.conda"), "its url is invalid: 'toy.conda'"),
        (_put("package", 0, "url", value="https://c/win-64/toy-1-0.conda"), "its url is invalid"),
        (_put("package", 0, "url", value="https://c/noarch/toy-1-0.zip"), "its url is invalid"),
        (_put("package", 0, "manager", value="pip"), "package toy: its manager is invalid: 'pip'"),
        (_put("package", 0, "platform", value="osx-64"), "its platform is invalid: 'osx-64'"),
        (_put("package", 0, "sha256", value="a" * 64), "package toy has a field `sha256`"),
        (_put("package", 0, "dependencies", value=["x"]), "its dependencies is not a mapping"),
        (_put("package", 0, "dependencies", "x", value=1), "its x is invalid: 1"),
        (_put("package", 1, "name", value="toy"), "package toy is listed twice"),
        (_drop(*_HASH), "package toy has no hash"),
        (_put(*_HASH, value={}), "package toy has no hash"),
        (_put(*_HASH, value={"md5": "", "sha256": None}), "package toy has no hash"),
        (_put(*_HASH, "sha1", value="a" * 40), "hash of package toy has a field `sha1`"),
        (_put(*_HASH, "sha256", value="a" * 63), "hash of package toy: its sha256 is invalid"),
        (_put(*_HASH, "sha256", value="A" * 64), "hash of package toy: its sha256 is invalid"),
        (_put(*_HASH, "md5", value=7), "hash of package toy: its md5 is invalid: 7"),
        (_drop("metadata"), "it isn't for linux-64"),
        (_put("metadata", value=7), "its metadata is not a mapping"),
        (_put("metadata", "channel", value=7), 'a field `channel`; did you mean "channels"?'),
        (_drop("metadata", "channels"), "metadata of the lock has no list of channels"),
        (_put("metadata", "channels", value=["x"]), "a channel is not a mapping"),
        (_put("metadata", "channels", value=[{}]), "a channel has no url"),
        (_put("metadata", "platforms", value=["osx-64"]), "it isn't for linux-64"),
        (_drop("metadata", "content_hash", "linux-64"), "has no linux-64"),
        (_put("metadata", "custom_metadata", "files", value=7), "its files is invalid: 7"),
        (
            _put("metadata", "custom_metadata", "size toy-1.0-h123_0.conda", value="1 MB"),
            "its size toy-1.0-h123_0.conda is invalid: '1 MB'",
        ),
    ],
)
def test_names_what_is_wrong(
    document: dict[str, Any], change: Callable[[Any], None], fault: str
) -> None:
    change(document)

    assert fault in "\n".join(faults_of(document))


@pytest.mark.parametrize("content", [None, [], "text", 7])
def test_names_what_is_no_document(content: object) -> None:
    assert "the lock is not a mapping" in faults_of(content)


def test_names_all_that_is_wrong(document: dict[str, Any]) -> None:
    document["version"] = 3
    for package in document["package"]:
        del package["hash"]

    assert faults_of(document) == [
        "its version is 3, not 1",
        "package toy has no hash",
        "package toy-data has no hash",
    ]
