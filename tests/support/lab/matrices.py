"""Cells; a project with the sources of tiny packages, so that a matrix builds them; the session."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from cuwheel.base.paths import ROOT
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.request import BuildRequest
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.lab.matrix.state import Cell
from tests.support.engine import PACKAGES, TIME_LIMIT, Engine, Outcome, make_engine
from tests.support.factories import make_job

OWN_PYTHON = ".".join(map(str, sys.version_info[:2]))
BROKEN = "#error this kernel isn't finished\n"


def make_cell(target: Target, workspace: Workspace, **options: Any) -> Cell:
    """A cell with the request that builds its target; the sandbox is the default one."""
    request = BuildRequest(targets=(target.name,), python=(target.python,), **options)
    return Cell(job=dataclasses.replace(make_job(target, workspace), settings=request))


def matrix_engine(folder: Path, project: Path, cache: Path) -> Engine:
    """The engine with a copy of the tests' project in which each source is a folder beside it."""
    own = folder / "project"
    shutil.copytree(project, own)
    for name in ("tiny_capi", "tiny_skbuild"):
        shutil.copytree(PACKAGES / name, own / "packages" / name)
        recipe = own / "recipes" / f"{name}.py"
        text = re.sub(
            r"Archive\(.*?\),\n", f'Folder(path="packages/{name}"),\n', recipe.read_text()
        )
        recipe.write_text(text.replace("Archive", "Folder"))
    return make_engine(folder, own, cache)


def run_matrix(engine: Engine, *arguments: str) -> Outcome:
    """The session `matrix` for the Python of the tests, of the tiny packages alone."""
    done = subprocess.run(
        matrix_command(engine, *arguments),
        env=engine.environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        check=False,
    )
    return Outcome(status=done.returncode, output=done.stdout + done.stderr)


def matrix_command(engine: Engine, *arguments: str) -> list[str]:
    """The command of that session."""
    folders = ("--work", str(engine.work), "--dist", str(engine.dist))
    only = ("--only", "tiny-capi-*", "--only", "tiny-skbuild-*", "--python", OWN_PYTHON)
    return [str(engine.python), "-m", "cuwheel", "matrix", *arguments, *only, *folders]


def kernel_of(engine: Engine) -> Path:
    """The CUDA source of tiny-capi in the engine's project."""
    [kernel] = (engine.project / "packages" / "tiny_capi").rglob("*.cu")
    return kernel
