"""What preflight finds before anything is spent, with real compilers, Pythons and toolkits."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.artefacts import Environment, SourceTree, Toolchain
from cuwheel.errors import LockError, PreflightError, SourceError, UnsupportedArchError
from cuwheel.paths import ROOT
from cuwheel.recipe import GIB, Framework
from cuwheel.stages.preflight import preflight
from tests.factories import make_space, make_target

if TYPE_CHECKING:
    from cuwheel.target import Target
    from cuwheel.workspace import Workspace


def locked_target(**changes: Any) -> Target:
    """A target whose lock is there and sound."""
    return make_target(root=ROOT / "tests" / "project", name="tiny-skbuild", **changes)


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return make_space(tmp_path)


def test_accepts_this_machine(space: Workspace) -> None:
    found = preflight(locked_target(), space)

    assert found.host_compiler.name.startswith("g++")


def test_finds_all_problems_at_once(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    target = locked_target(archs=("99",), disk=1 << 60, system=("no-such-package",))
    asking = dataclasses.replace(space, python="3.99")

    said = _refusal(target, asking)

    wanted = ("sm_99", "no Python 3.99", "CXX=/nonexistent/g++", "too small", "no-such-package")
    assert [text for text in wanted if text not in said] == []


def test_names_command_that_installs_system_packages(space: Workspace) -> None:
    said = _refusal(locked_target(system=("libnosuch-dev",)), space)

    assert "apt-get install libnosuch-dev" in said


def test_refuses_compiler_newer_than_toolkits_own_header_takes(
    space: Workspace, tmp_path: Path
) -> None:
    home = _toolkit_home(tmp_path, newest_gcc=7)
    space.save("toolchain", home)

    said = _refusal(locked_target(), space)

    assert "takes GCC 7 at most" in said


def test_refuses_framework_of_other_cuda(space: Workspace, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "version.py").write_text("cuda: str = '12.8'\n")
    space.save("environment", _environment(site))
    target = locked_target(framework=Framework(name="torch", version="2.9.0"))

    said = _refusal(target, space)

    assert "its version.py says CUDA 12.8" in said


def test_names_build_requirements_that_lock_lacks(space: Workspace, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "pyproject.toml").write_text('[build-system]\nrequires = ["no-such-backend>=2"]\n')
    space.save("environment", _environment(tmp_path / "site"))
    space.save(
        "patch", SourceTree(path=tree, origin="here", sha256="0" * 64, epoch=1, pinned=False)
    )

    said = _refusal(locked_target(), space)

    assert "no-such-backend>=2" in said


def test_finds_stale_lock_before_anything_is_downloaded(space: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "envs" / "build" / "tiny_cuda.in"
    source.parent.mkdir(parents=True)
    source.write_text("setuptools\n")

    with pytest.raises(LockError) as caught:
        preflight(make_target(root=tmp_path), space)

    assert caught.value.fix == "nox -s lock -- build:tiny-cuda"


def test_refuses_python_outside_recipes_range(space: Workspace) -> None:
    said = _refusal(locked_target(requires_python=">=3.99"), space)

    assert "the recipe says >=3.99" in said


def test_refuses_more_jobs_than_memory_holds(space: Workspace) -> None:
    greedy = dataclasses.replace(space, jobs=10_000)

    said = _refusal(locked_target(memory_per_job=GIB), greedy)

    assert "10000 compiles at once take 10000.0" in said


def test_refuses_folder_that_flags_cannot_carry(tmp_path: Path) -> None:
    said = _refusal(locked_target(), make_space(tmp_path / "a folder"))

    assert "compiler flags can't carry" in said


def test_refuses_folder_for_wheels_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "dist").write_text("a file stands in its place")

    said = _refusal(locked_target(), make_space(tmp_path))

    assert f"{tmp_path}/dist is no folder" in said


def test_refuses_source_that_is_not_there(space: Workspace) -> None:
    given = Path("/nonexistent/source")

    with pytest.raises(SourceError) as caught:
        preflight(locked_target(source_override=given), space)

    assert caught.value.what == f"{given} is neither a folder nor a file"


def test_gives_single_problem_its_own_error(space: Workspace) -> None:
    with pytest.raises(UnsupportedArchError):
        preflight(locked_target(archs=("70",)), space)


def _refusal(target: Target, space: Workspace) -> str:
    with pytest.raises(PreflightError) as caught:
        preflight(target, space)
    return str(caught.value)


def _toolkit_home(folder: Path, newest_gcc: int) -> Toolchain:
    """A toolkit that only has what preflight reads: the header, and an nvcc that lists archs."""
    header = folder / "include" / "crt" / "host_config.h"
    header.parent.mkdir(parents=True)
    header.write_text(f"#if __GNUC__ > {newest_gcc}\n#error -- unsupported GNU version!\n#endif\n")
    nvcc = folder / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho compute_90\n")
    nvcc.chmod(0o755)
    return Toolchain(
        home=folder, version="13.0.88", provider="system", fingerprint="0", pinned=False
    )


def _environment(site: Path) -> Environment:
    site.mkdir(exist_ok=True)
    python = type(site)(sys.executable)
    return Environment(
        python=python,
        site_packages=site,
        fingerprint="0",
        base_python=python,
        base_version="3.11.0",
    )
