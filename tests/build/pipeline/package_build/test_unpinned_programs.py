"""Build tools of the machine that no lock pins are refused, with the line to write."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from cuwheel.build.environments.lock_file import as_input, read_pins, render
from tests.support.engine import PACKAGES, Engine
from tests.support.requirements import require
from tests.support.toolchains.small_toolchain import line_of

_FIX = "to `requires` in recipes/tiny_capi.py, then `nox -s lock -- build:tiny-capi`"


def _package(folder: Path, lines: str) -> Path:
    tree = shutil.copytree(PACKAGES / "tiny_capi", folder / "tiny_capi")
    setup = tree / "setup.py"
    setup.write_text(lines + setup.read_text())
    return tree


@pytest.mark.e2e
def test_refuses_program_that_setup_calls(engine: Engine, tmp_path: Path) -> None:
    require("cmake", "that the machine's own is left alone")
    tree = _package(tmp_path, "import subprocess\nsubprocess.check_call(['cmake', '--version'])\n")

    done = engine.build("tiny-capi", "--source", str(tree))

    assert done.status == 61
    assert "cuwheel: cmake of the machine is not used, because no lock pins it" in done.output
    assert f"it calls cmake, which no lock pins: add cmake {_FIX}" in done.output


@pytest.mark.e2e
def test_warns_where_a_build_does_without(engine: Engine, tmp_path: Path) -> None:
    require("cmake", "that the machine's own is left alone")
    tree = _package(tmp_path, "import subprocess\nsubprocess.run(['cmake', '--version'])\n")

    done = engine.build("tiny-capi", "--source", str(tree))

    assert done.status == 0, done.output
    assert "the package's build continued without programs of the machine" in done.output
    assert f"add cmake {_FIX}" in done.output
    [statement] = engine.dist.glob("*.provenance.json")
    definition = json.loads(statement.read_text())["predicate"]["buildDefinition"]
    [fact] = [
        line for line in definition["internalParameters"]["notHermetic"] if "/usr/bin" in line
    ]
    assert "except cmake" in fact


@pytest.mark.e2e
def test_names_what_scikit_build_core_would_take_of_the_machine(
    engine: Engine, tmp_path: Path
) -> None:
    """It requires cmake and ninja only where it finds none that runs."""
    require("cmake", "that the machine's own is left alone")
    project = shutil.copytree(engine.project, tmp_path / "project")
    recipe = project / "recipes" / "tiny_skbuild.py"
    recipe.write_text(recipe.read_text().replace('"cmake", "ninja", ', ""))
    lock = project / "envs" / "build" / "tiny_skbuild.lock"
    kept = [pin for pin in read_pins(lock) if pin.requirement.name not in {"cmake", "ninja"}]
    body = "".join(line_of(str(pin.requirement), pin.hashes) for pin in kept)
    declared = as_input(("build", "nvidia-cuda-runtime==13.0.96", "scikit-build-core"))
    lock.write_text(render(body, input_text=declared, command="", cooldown=""))

    done = dataclasses.replace(engine, project=project).build("tiny-skbuild")

    assert done.status == 50
    assert "the backend also requires cmake" in done.output
    assert "to `requires` in recipes/tiny_skbuild.py" in done.output
    assert "ninja" in done.output
