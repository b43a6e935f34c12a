"""Whole builds: published wheels stay; each Python, each place of a source gives the same one."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import sha256_of_file
from tests.support.engine import PACKAGES, Engine
from tests.support.factories import commit_all
from tests.support.machines.pythons import pythons

pytestmark = pytest.mark.e2e

_TARGET = "tiny-capi-130"
_SERVED = ("3.10", "3.11", "3.12", "3.13")  # releases that the packages' locks hold


@pytest.fixture
def checkout(project: Path, tmp_path: Path) -> Path:
    """A project whose source is a folder beside its recipes, committed years ago."""
    made = shutil.copytree(project, tmp_path / "checkout")
    shutil.copytree(PACKAGES / "tiny_capi", made / "packages" / "tiny_capi")
    for name in ("tiny_rdc", "tiny_skbuild"):
        (made / "recipes" / f"{name}.py").unlink()
    recipe = made / "recipes" / "tiny_capi.py"
    lines = recipe.read_text().replace("import MIB, Archive,", "import MIB, Folder,").splitlines()
    recipe.write_text(
        "\n".join(
            '    source=Folder(path="packages/tiny_capi"),' if "source=Archive" in line else line
            for line in lines
        )
    )
    commit_all(made, GIT_COMMITTER_DATE="1600000000 +0000")
    return made


def run(*command: str | Path, **variables: str) -> None:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **variables},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def built_from(project: Path, engine: Engine, *options: str) -> str:
    """SHA-256 of the wheel that a project's recipe gives."""
    name = project.parent.name
    own = dataclasses.replace(
        engine, project=project, work=engine.work / name, dist=engine.dist / name
    )
    folders = ("--work", str(own.work), "--dist", str(own.dist))
    run(sys.executable, "-m", "cuwheel", "build", _TARGET, *folders, *options, **own.environment())
    [wheel] = own.wheels()
    return sha256_of_file(wheel)


@pytest.mark.nightly
def test_clone_archive_and_mirror_give_one_wheel(
    checkout: Path, engine: Engine, tmp_path: Path
) -> None:
    """With other times of all files, with git and without it, from other folders."""
    clone, unpacked, copied = (tmp_path / name / "tiny" for name in ("clone", "archive", "copy"))
    run("git", "clone", "-q", checkout, clone)
    unpacked.mkdir(parents=True)
    run("git", "-C", checkout, "archive", "-o", tmp_path / "all.tar", "HEAD")
    run("tar", "-x", "--touch", "-C", unpacked, "-f", tmp_path / "all.tar")
    mirror = tmp_path / "mirror"
    of_clone = engine.environment(CUWHEEL_PROJECT=str(clone))
    run(sys.executable, "-m", "cuwheel", "mirror", _TARGET, "--to", mirror, **of_clone)
    copied.parent.mkdir()
    run("cp", "-r", mirror / "projects" / clone.name, copied)

    digests = {built_from(project, engine, "--no-cache") for project in (clone, unpacked, copied)}

    assert len(digests) == 1


def _own_project(engine: Engine, folder: Path) -> Engine:
    """The engine with recipes that can be changed."""
    return dataclasses.replace(engine, project=shutil.copytree(engine.project, folder))


def _change_recipe(engine: Engine) -> None:
    """Change what the wheel's bill of materials states."""
    recipe = engine.project / "recipes" / "tiny_skbuild.py"
    text = re.sub(r'license="[^"]+"', 'license="BSD-2-Clause"', recipe.read_text())
    recipe.write_text(text)


def test_changed_recipe_gets_a_build_tag(engine: Engine, tmp_path: Path) -> None:
    """The published file stays, installers take the other, and verify gets that without a cache."""
    engine, source = _own_project(engine, tmp_path / "project"), PACKAGES / "tiny_skbuild"
    first = engine.build("tiny-skbuild", "--source", str(source))
    assert first.status == 0, first.output
    [old] = engine.wheels()
    digest = sha256_of_file(old)
    _change_recipe(engine)

    changed = engine.build("tiny-skbuild", "--source", str(source))

    assert changed.status == 0, changed.output
    assert "stays published as it is" in changed.output
    assert "gets the build tag 1" in changed.output
    [new] = [path for path in engine.wheels() if path != old]
    assert new.name == old.name.replace("-py3-", "-1-py3-")
    assert sha256_of_file(old) == digest
    page = (engine.dist / "simple" / "tiny-skbuild" / "index.html").read_text()
    assert all(name in page for name in (f">{old.name}<", f">{new.name}<"))
    assert "is up to date" in engine.build("tiny-skbuild", "--source", str(source)).output
    words = ("--source", str(source), "--work", str(engine.work), "--against", str(new))
    run(
        sys.executable,
        "-m",
        "cuwheel",
        "verify",
        "tiny-skbuild-130",
        *words,
        **engine.environment(),
    )
    run(sys.executable, "-m", "cuwheel", "audit", str(new), **engine.environment())


def test_replaces_a_published_wheel_when_asked(engine: Engine, tmp_path: Path) -> None:
    engine = _own_project(engine, tmp_path / "project")
    engine.build("tiny-skbuild")
    [old] = engine.wheels()
    digest = sha256_of_file(old)
    _change_recipe(engine)

    done = engine.build("tiny-skbuild", "--replace")

    assert done.status == 0, done.output
    assert engine.wheels() == [old]
    assert sha256_of_file(old) != digest


@pytest.mark.parametrize(
    "name", [pytest.param("tiny-skbuild", marks=pytest.mark.nightly), "cutensornet-sample"]
)
def test_wheel_for_several_pythons_is_the_same_from_each(
    name: str, engine: Engine, tmp_path: Path
) -> None:
    """One that is loaded with ctypes, and one of the stable ABI; each compiled twice."""
    oldest, *_, newest = (one.release for one in pythons() if one.release in _SERVED)
    is_tiny = name.startswith("tiny")
    source = ("--source", PACKAGES / name.replace("-", "_")) if is_tiny else ()
    variables = engine.environment(**({} if is_tiny else {"CUWHEEL_PROJECT": ""}))
    found = []
    for release in (oldest, newest):
        dist = tmp_path / release
        words = ("--python", release, "--work", tmp_path / "work", "--dist", dist, "--no-cache")
        command = (sys.executable, "-m", "cuwheel", "build", f"{name}-130")
        run(*command, *source, *words, **variables)
        found += [(path.name, sha256_of_file(path)) for path in dist.glob("*.whl")]

    assert oldest != newest
    assert (len(found), len(set(found))) == (2, 1)
