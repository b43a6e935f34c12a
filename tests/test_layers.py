"""Each import contract of pyproject.toml is seen to fail when it is broken."""

from __future__ import annotations

import ast
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest
import tomli

from cuwheel.paths import ROOT
from cuwheel.system.process import Finished, run

if TYPE_CHECKING:
    from pathlib import Path

_LINT = "from importlinter import cli; cli.lint_imports_command()"

_BREACHES = [
    pytest.param("floors", "cuda/toolkits", "import cuwheel.system.process", id="sideways"),
    pytest.param("floors", "model/catalogue", "import cuwheel.build.rebuild_key", id="upward"),
    pytest.param("cycles", "wheel/zip_reader", "import cuwheel.wheel.archive", id="cycle"),
    pytest.param("stages", "stages/build", "import cuwheel.stages.toolchain", id="stages"),
    pytest.param("world", "system/process", "from cuwheel.model.target import Target", id="target"),
    pytest.param("world", "binaries/elf", "import cuwheel.model.recipe", id="recipe"),
    pytest.param("subprocess", "system/files", "import subprocess", id="subprocess"),
]


def read_contracts() -> dict[str, dict[str, Any]]:
    """The contracts of pyproject.toml by their id."""
    settings = tomli.loads((ROOT / "pyproject.toml").read_text())
    return {contract["id"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the package with its contracts."""
    shutil.copytree(
        ROOT / "cuwheel", tmp_path / "cuwheel", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(house: Path, *contracts: str) -> Finished:
    chosen = [word for contract in contracts for word in ("--contract", contract)]
    command = [sys.executable, "-c", _LINT, "--no-cache", "--no-logo", *chosen]
    return run(command, env={"PATH": os.defpath}, cwd=house, check=False)


def test_keeps_every_contract(house: Path) -> None:
    found = lint(house)

    assert found.status == 0, found.output


@pytest.mark.parametrize(("contract", "module", "line"), _BREACHES)
def test_reports_broken_contract(house: Path, contract: str, module: str, line: str) -> None:
    with (house / "cuwheel" / f"{module}.py").open("a") as stream:
        stream.write(f"{line}\n")

    found = lint(house, contract)

    assert "0 kept, 1 broken" in found.output


def test_reports_module_without_floor(house: Path) -> None:
    (house / "cuwheel" / "homeless.py").write_text('"""On no floor."""\n')

    found = lint(house, "floors")

    assert "homeless" in found.output
    assert found.status == 1


def test_breaches_every_contract() -> None:
    assert {breach.values[0] for breach in _BREACHES} == set(read_contracts())


def test_architecture_names_every_room() -> None:
    rooms = [path.parent.name for path in (ROOT / "cuwheel").glob("*/__init__.py")]

    page = (ROOT / "docs" / "architecture.md").read_text()

    assert [name for name in rooms if f"`{name}/`" not in page] == []


def test_every_room_says_what_it_is_for() -> None:
    rooms = (ROOT / "cuwheel").glob("*/__init__.py")

    for room in rooms:
        said = ast.get_docstring(ast.parse(room.read_text())) or ""
        assert "Called by" in said, room
        assert "Face:" in said, room


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in (ROOT / "cuwheel").rglob("__init__.py"))
)
def test_no_folder_has_more_than_15_modules(folder: Path) -> None:
    assert len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) <= 15
