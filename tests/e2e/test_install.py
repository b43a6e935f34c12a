"""`install` with an environment's own pip; and where no wheel is there, a whole build."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cuwheel.paths import ROOT
from tests.support.documents import read_document
from tests.support.engine import PACKAGES
from tests.support.installed import Installing, offer, pip_environment, uv_environment, versions

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.engine import Engine

pytestmark = pytest.mark.e2e


def test_builds_what_nobody_offers(engine: Engine, project: Path, tmp_path: Path) -> None:
    environment = uv_environment(tmp_path / "env")
    checkout = shutil.copytree(project, tmp_path / "checkout")
    shutil.copytree(PACKAGES / "tiny_capi", checkout / "packages" / "tiny_capi")
    recipe = checkout / "recipes" / "tiny_capi.py"
    lines = recipe.read_text().replace("import MIB, Archive,", "import MIB, Folder,").splitlines()
    folder = '    source=Folder(path="packages/tiny_capi"),'
    recipe.write_text("\n".join(folder if "source=Archive" in one else one for one in lines))
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


def test_installs_with_the_environments_own_pip(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    installing = Installing(environment=pip_environment(tmp_path / "env"), folder=tmp_path)
    offer(installing.dist)

    done = installing.run()

    assert "-m pip" in done.command
    assert versions(installing.environment) == ["1.0+cu130"]
    assert installing.run().was_there
