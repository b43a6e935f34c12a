"""`install` into an environment with pip; and where no wheel is there, a whole build."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError
from cuwheel.base.paths import ROOT
from tests.support.documents import read_document
from tests.support.engine import PACKAGES, Engine
from tests.support.factories import write_wheel
from tests.support.publish.installations import (
    Installing,
    offer,
    pip_environment,
    state,
    uv_environment,
    versions,
)

pytestmark = pytest.mark.e2e


def checkout_with_source(project: Path, folder: Path) -> Path:
    """Return a copy of the tests' project whose tiny_capi is built from a folder of it."""
    checkout = shutil.copytree(project, folder)
    shutil.copytree(PACKAGES / "tiny_capi", checkout / "packages" / "tiny_capi")
    recipe = checkout / "recipes" / "tiny_capi.py"
    lines = recipe.read_text().replace("import MIB, Archive,", "import MIB, Folder,").splitlines()
    source = '    source=Folder(path="packages/tiny_capi"),'
    recipe.write_text("\n".join(source if "source=Archive" in one else one for one in lines))
    return checkout


def test_builds_what_nobody_offers(engine: Engine, project: Path, tmp_path: Path) -> None:
    environment = uv_environment(tmp_path / "env")
    checkout = checkout_with_source(project, tmp_path / "checkout")
    empty = tmp_path / "empty"
    empty.mkdir()
    words = ("--python", environment, "--index", empty, "--fallback", "build", "--json")
    places = ("--dist", engine.dist, "--work", engine.work)

    done = subprocess.run(
        [sys.executable, "-m", "cuwheel", "install", "tiny-capi-130", *words, *places],
        env=engine.environment(CUWHEEL_PROJECT=str(checkout)),
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    data = read_document(done.stdout.splitlines()[-1], "install")["installed"]
    [wheel] = engine.wheels()
    assert (data["how"], data["what"]) == ("build", wheel.name)
    assert "no wheel of tiny-capi-130 fits" in data["because"]
    assert data["statement"]["archs"]
    assert versions(environment, "tiny_capi") == ["1.0.0+cu130"]


def test_installs_into_an_environment_with_pip_and_leaves_pip_alone(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    environment = pip_environment(tmp_path / "env")
    installing = Installing(environment=environment, folder=tmp_path)
    before = state(environment)
    write_wheel(
        installing.dist,
        {"toy.py": b"", "pip/__init__.py": b"", "toy-1.0+cu130.data/scripts/pip": b"#!python\n"},
        name="toy",
        version="1.0+cu130",
        tag="py3-none-any",
    )

    with pytest.raises(InstallError, match="without changing other files"):
        installing.run()

    assert state(environment) == before
    offer(installing.dist)
    installing.run()
    assert versions(environment) == ["1.0+cu130"]
    assert installing.run().was_there
    pip = [str(environment / "bin" / "python"), "-m", "pip", "uninstall", "-y", "toy"]
    subprocess.run(pip, check=True, capture_output=True)
    assert state(environment) == before


def test_gets_a_package_that_has_to_be_built(engine: Engine, project: Path, tmp_path: Path) -> None:
    checkout, empty = checkout_with_source(project, tmp_path / "checkout"), tmp_path / "empty"
    empty.mkdir()
    words = ("--python", sys.executable, "--to", tmp_path / "env", "--index", empty, "--json")
    places = ("--dist", engine.dist, "--work", engine.work)

    done = subprocess.run(
        [sys.executable, "-m", "cuwheel", "get", "tiny-capi", "--yes", *words, *places],
        env=engine.environment(CUWHEEL_PROJECT=str(checkout)),
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    data = read_document(done.stdout.splitlines()[-1], "get")
    assert data["built"] == ["tiny-capi-130"]
    assert data["proofs"][0]["imported"] == ["tiny_capi"]
    assert versions(tmp_path / "env", "tiny_capi") == ["1.0.0+cu130"]
