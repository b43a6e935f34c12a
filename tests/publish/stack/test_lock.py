"""Locks of several packages: only files that were offered count."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.version import Version

from cuwheel.base.errors import InstallError
from cuwheel.base.fetch.indexes.offers import Offer
from cuwheel.publish.stack.lock import _check_origin

INDEX = "https://own.example/simple/"
NAME = "plain-1.0-py3-none-any.whl"


def offered(sha256: str = "") -> dict[str, tuple[Offer, ...]]:
    """One wheel of a project, with or without a hash."""
    wheel = Offer(
        name=NAME,
        url=f"https://own.example/files/{NAME}",
        sha256=sha256,
        index=INDEX,
        version=Version("1.0"),
        is_wheel=True,
    )
    return {"plain": (wheel,)}


def locked(url: str, sha256: str, name: str = NAME) -> list[dict[str, Any]]:
    """The packages of a lock as uv writes it, with one wheel."""
    wheel = {"name": name, "url": url, "hashes": {"sha256": sha256}}
    return [{"name": "plain", "version": "1.0", "wheels": [wheel]}]


def test_takes_the_offered_bytes_from_anywhere() -> None:
    _check_origin(locked("http://127.0.0.1:9/x", "AA"), offered("aa"))


def test_takes_a_file_of_another_project() -> None:
    _check_origin([{"name": "other", "wheels": []}], offered())


@pytest.mark.parametrize(
    "packages",
    [
        pytest.param(locked(f"https://public.example/{NAME}", "bb"), id="other bytes"),
        pytest.param(
            locked("https://public.example/y", "aa", "plain-2.0-py3-none-any.whl"), id="name"
        ),
        pytest.param([{"name": "plain", "directory": {"path": "."}}], id="folder"),
        pytest.param([{"name": "plain"}], id="nothing"),
    ],
)
def test_refuses_what_was_not_offered(packages: list[dict[str, Any]]) -> None:
    with pytest.raises(InstallError, match="plain") as caught:
        _check_origin(packages, offered("aa"))

    assert NAME in caught.value.why
