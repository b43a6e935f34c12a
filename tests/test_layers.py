"""Each import contract of pyproject.toml is seen to fail when it is broken."""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest
import tomli

from cuwheel.paths import ROOT
from cuwheel.process import Finished, run

if TYPE_CHECKING:
    from pathlib import Path

_LINT = "from importlinter import cli; cli.lint_imports_command()"

_BREACHES = [
    pytest.param("floors", "toolkits", "import cuwheel.process", id="upward"),
    pytest.param("floors", "catalogue", "import cuwheel.key", id="adapter to shared"),
    pytest.param("cycles", "process", "import cuwheel.pythons", id="cycle"),
    pytest.param("stages", "stages/build", "import cuwheel.stages.toolchain", id="stages"),
    pytest.param("adapters", "process", "from cuwheel.target import Target", id="target"),
    pytest.param("adapters", "elf", "import cuwheel.recipe", id="recipe"),
    pytest.param("subprocess", "files", "import subprocess", id="subprocess"),
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


def test_contract_names_every_adapter() -> None:
    contracts = read_contracts()
    [floor] = [text for text in contracts["floors"]["layers"] if "catalogue" in text]
    adapters = {f"cuwheel.{name}" for name in re.findall(r"\w+", floor)} - {"cuwheel.catalogue"}

    assert set(contracts["adapters"]["source_modules"]) == {
        name for name in adapters if (ROOT / f"{name.replace('.', '/')}.py").is_file()
    }


def test_architecture_names_every_module_that_stages_share() -> None:
    layers = next(one for one in read_contracts().values() if one["type"] == "layers")["layers"]
    (shared,) = (layer.split(" : ") for layer in layers if " artefacts " in layer)

    page = (ROOT / "docs" / "architecture.md").read_text()

    assert [name for name in shared if f"`{name}`" not in page] == []
