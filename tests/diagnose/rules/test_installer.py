"""The commands that change an environment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cuwheel.diagnose.facts.environment import Distribution
from cuwheel.diagnose.rules.installer import Installer, same_release

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("python", "has_pip", "command"),
    [
        ("", True, "python -m pip install 'a>=1'"),
        ("/e/bin/python", True, "/e/bin/python -m pip install 'a>=1'"),
        ("", False, "uv pip install 'a>=1'"),
        ("/my e/python", False, "uv pip install --python '/my e/python' 'a>=1'"),
    ],
)
def test_leads_to_the_environment(python: str, command: str, *, has_pip: bool) -> None:
    assert Installer(python=python, has_pip=has_pip).install("a>=1") == command


@pytest.mark.parametrize(
    ("has_pip", "command"),
    [(True, "python -m pip uninstall -y a b"), (False, "uv pip uninstall a b")],
)
def test_removes_without_asking(command: str, *, has_pip: bool) -> None:
    assert Installer(python="", has_pip=has_pip).remove(("a", "b")) == command


@pytest.mark.parametrize(
    ("version", "origin", "requirement"),
    [
        ("2.11.0", {}, "torch==2.11.0"),
        ("2.11.0+cpu", {}, ""),
        (
            "2.11.0+cpu",
            {"url": "file:///w/t.whl", "archive_info": {}},
            "torch @ file:///w/t.whl",
        ),
        ("2.11.0+cpu", {"url": "file:///source", "dir_info": {}}, ""),
    ],
)
def test_names_same_release(
    tmp_path: Path, version: str, origin: dict[str, object], requirement: str
) -> None:
    (tmp_path / "direct_url.json").write_text(json.dumps(origin))
    torch = Distribution(
        name="torch",
        version=version,
        site=tmp_path,
        metadata=tmp_path,
        requires=(),
        libraries=(),
    )

    assert same_release(torch) == requirement
