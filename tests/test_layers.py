"""Each import contract of pyproject.toml is seen to fail when it is broken."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tomli

from cuwheel.base.paths import ROOT, SCRIPT_FOLDERS
from cuwheel.base.system.process import Finished, run

_LINT = "from importlinter import cli; cli.lint_imports_command()"

_BREACHES = [
    pytest.param("wings", "check/cuda/toolkits", "import cuwheel.build.recipe.target", id="wing"),
    pytest.param("base", "base/system/process", "import cuwheel.base.fetch.web", id="base"),
    pytest.param("check", "check/cuda/toolkits", "import cuwheel.check.audit.case", id="check"),
    pytest.param("build", "build/recipe/target", "import cuwheel.build.locks.mirror", id="build"),
    pytest.param("lab", "lab/perf/gate", "import cuwheel.lab.nightly.cycle", id="lab"),
    pytest.param("publish", "publish/index/site", "import cuwheel.publish.release.plan", id="room"),
    pytest.param(
        "faces", "check/audit/audit", "import cuwheel.check.cuda.nvidia_wheels", id="face"
    ),
    pytest.param(
        "cycles",
        "base/formats/wheel/zip_reader",
        "import cuwheel.base.formats.wheel.archive",
        id="cycle",
    ),
    pytest.param(
        "stages",
        "build/pipeline/stages/build",
        "import cuwheel.build.pipeline.stages.toolchain",
        id="stages",
    ),
    pytest.param(
        "world",
        "build/environments/uv",
        "from cuwheel.build.recipe.target import Target",
        id="target",
    ),
    pytest.param("subprocess", "base/system/files", "import subprocess", id="subprocess"),
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
    support = tmp_path / "tests" / "support"
    support.mkdir(parents=True)
    for path in (support.parent / "__init__.py", support / "__init__.py"):
        path.touch()
    shutil.copytree(ROOT / "tests" / "support" / "lint", support / "lint")
    return tmp_path


def lint(house: Path, *contracts: str) -> Finished:
    chosen = [word for contract in contracts for word in ("--contract", contract)]
    command = [sys.executable, "-c", _LINT, "--no-cache", "--no-logo", *chosen]
    return run(command, env={"PATH": os.defpath}, cwd=house, check=False)


@pytest.mark.e2e
@pytest.mark.parametrize(("contract", "module", "line"), _BREACHES)
def test_reports_broken_contract(house: Path, contract: str, module: str, line: str) -> None:
    with (house / "cuwheel" / f"{module}.py").open("a") as stream:
        stream.write(f"{line}\n")

    found = lint(house, contract)

    assert "0 kept, 1 broken" in found.output


def test_reports_module_without_floor(house: Path) -> None:
    (house / "cuwheel" / "homeless.py").write_text('"""On no floor."""\n')

    found = lint(house, "wings")

    assert "homeless" in found.output
    assert found.status == 1


def test_breaches_every_contract() -> None:
    assert {breach.values[0] for breach in _BREACHES} == set(read_contracts())


WINGS = ("base", "check", "build", "lab", "publish")
ROOMS = sorted(
    path.parent for wing in WINGS for path in (ROOT / "cuwheel" / wing).glob("*/__init__.py")
)


def test_architecture_names_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()

    assert [room.name for room in ROOMS if f"`{room.name}/`" not in page] == []


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in (ROOT / "cuwheel").rglob("__init__.py"))
)
def test_no_folder_has_more_than_15_modules(folder: Path) -> None:
    assert len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) <= 15


def test_lint_knows_the_folders_of_scripts() -> None:
    lint = tomli.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    [folders] = [
        re.fullmatch(r"cuwheel/\{(.*)\}/\*\*", pattern)
        for pattern in lint["per-file-ignores"]
        if pattern.startswith("cuwheel/{")
    ]

    assert folders
    assert tuple(folders[1].split(",")) == SCRIPT_FOLDERS


def test_each_public_class_has_one_meaning() -> None:
    names = Counter(
        name
        for path in (ROOT / "cuwheel").rglob("*.py")
        for name in re.findall(r"(?m)^class ([^\W_]\w*)", path.read_text())
    )

    assert [name for name, count in names.items() if count > 1] == []
