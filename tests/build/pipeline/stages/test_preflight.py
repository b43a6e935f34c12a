"""The problems that preflight finds, with real compilers, Pythons and toolkits."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import PreflightError
from cuwheel.base.system.process import run
from cuwheel.base.system.quantities import GIB
from cuwheel.build.pipeline.stages.preflight import preflight
from cuwheel.build.recipe.recipe import Framework
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.records import Environment, SourceTree, Toolchain
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import heard, locked_target, make_job, write_compiler
from tests.support.requirements import require


def test_accepts_this_machine(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more jobs than memory holds, as the gate starts as many as fit."""
    monkeypatch.setenv("CXX", "/usr/bin/g++")

    result = preflight(make_job(locked_target(memory_per_job=GIB), workspace, jobs=10_000))

    assert result.jobs == 10_000
    assert result.host_compiler is not None
    assert result.host_compiler.name.startswith("g++")
    assert not result.host_compiler_pinned
    assert "not used" not in heard(workspace)


@pytest.mark.parametrize(
    ("newest_gcc", "parts"),
    [
        (7, ["supports GCC up to 7"]),
        (99, ["nvcc itself doesn't support 100f", "lists sm_90, sm_90a"]),
    ],
)
def test_refuses_compiler_and_arch_that_the_toolkit_itself_lacks(
    workspace: Workspace, tmp_path: Path, newest_gcc: int, parts: list[str]
) -> None:
    workspace.save("toolchain", _toolkit_home(tmp_path, newest_gcc=newest_gcc))

    text = _refusal(locked_target(archs=("90a", "100f")), workspace)

    assert [part for part in parts if part not in text] == []


def test_refuses_framework_of_other_cuda(workspace: Workspace, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "version.py").write_text("cuda: str = '12.8'\n")
    workspace.save("environment", _environment(site))
    target = locked_target(framework=Framework(name="torch", version="2.9.0"))

    text = _refusal(target, workspace)

    assert "its version.py says CUDA 12.8" in text


def test_names_build_requirements_that_lock_lacks(workspace: Workspace, tmp_path: Path) -> None:
    workspace.save("environment", _environment(tmp_path / "site"))
    _source(workspace, tmp_path, 'requires = ["no-such-backend>=2"]')

    text = _refusal(locked_target(), workspace)

    assert "no-such-backend>=2" in text


def test_imports_a_sources_own_backend_in_a_sandbox(workspace: Workspace, tmp_path: Path) -> None:
    require("sandbox", "that a source's own backend is imported where it sees nothing else")
    _real_environment(workspace, tmp_path)
    secret = tmp_path / "secret"
    secret.touch()
    tree = _source(
        workspace, tmp_path, 'requires = []\nbuild-backend = "own"\nbackend-path = ["."]'
    )
    (tree / "own.py").write_text(f"import os\nassert not os.path.exists({str(secret)!r}), 'seen'\n")

    preflight(make_job(locked_target(), workspace))

    assert "seen" in _refusal(locked_target(), workspace, sandbox="none")


def test_refuses_backend_of_the_environment_that_can_not_be_imported(
    workspace: Workspace, tmp_path: Path
) -> None:
    site = _real_environment(workspace, tmp_path)
    _source(workspace, tmp_path, 'requires = []\nbuild-backend = "shared"')
    (site / "shared.py").write_text("raise SystemExit('cannot start')\n")

    assert "can't be imported" in _refusal(locked_target(), workspace)


def _real_environment(workspace: Workspace, tmp_path: Path) -> Path:
    """Make an environment in which the frontend can be imported; return its site-packages."""
    run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], env={})
    [site] = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    (site / "build-1.0.dist-info").mkdir()
    (site / "build-1.0.dist-info" / "METADATA").write_text("Name: build\nVersion: 1.0\n")
    (site / "build.py").touch()
    python = tmp_path / "env" / "bin" / "python"
    workspace.save("environment", dataclasses.replace(_environment(site), python=python))
    return site


def _source(workspace: Workspace, tmp_path: Path, build_system: str) -> Path:
    """Make a patched source with this table in `pyproject.toml`; return its folder."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "pyproject.toml").write_text(f"[build-system]\n{build_system}\n")
    workspace.save(
        "patch", SourceTree(path=tree, origin="here", sha256="0" * 64, epoch=1, pinned=False)
    )
    return tree


@pytest.mark.usefixtures("bare_machine")
def test_needs_nothing_of_machine_while_conda_toolchain_is_to_come(workspace: Workspace) -> None:
    result = preflight(make_job(locked_target(provider="conda", toolkit="12.2"), workspace))

    assert (result.host_compiler, result.host_compiler_pinned) == (None, False)


@pytest.mark.usefixtures("bare_machine")
def test_takes_toolchains_own_compiler(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolchain = _own_toolchain(tmp_path, gcc="12.4.0", newest_gcc=12)
    workspace.save("toolchain", toolchain)
    monkeypatch.setenv("CXX", "/nonexistent/g++")

    result = preflight(make_job(_conda_target(), workspace))

    assert (result.host_compiler, result.c_compiler) == (toolchain.cxx, toolchain.cc)
    assert result.host_compiler_version == "x86_64-conda-linux-gnu-g++ (Stand-in) 12.4.0"
    assert result.host_compiler_pinned


def test_notes_once_which_settings_are_not_used(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/usr/bin/g++-13")
    monkeypatch.setenv("NVCC_PREPEND_FLAGS", "-allow-unsupported-compiler")
    preflight(make_job(_conda_target(), workspace))
    workspace.save("toolchain", _own_toolchain(tmp_path, gcc="12.4.0", newest_gcc=12))

    preflight(make_job(_conda_target(), workspace))

    text = "CXX, NVCC_PREPEND_FLAGS of your environment: not used"
    assert heard(workspace).count(text) == 1


def _refusal(target: Target, workspace: Workspace, **settings: Any) -> str:
    with pytest.raises(PreflightError) as caught:
        preflight(make_job(target, workspace, **settings))
    return str(caught.value)


def _conda_target(**changes: Any) -> Target:
    return locked_target(provider="conda", toolkit="12.2", **changes)


def _own_toolchain(folder: Path, *, gcc: str, newest_gcc: int) -> Toolchain:
    """A toolkit with a stand-in GCC under the names that conda-forge gives."""
    home, triplet = folder / "home", "x86_64-conda-linux-gnu-"
    cxx = write_compiler(home / "bin", f"{triplet}g++", gcc)
    cc = write_compiler(home / "bin", f"{triplet}gcc", gcc)
    toolchain = _toolkit_home(home, newest_gcc)
    return dataclasses.replace(
        toolchain, provider="conda", pinned=True, cc=cc, cxx=cxx, programs=home / "programs"
    )


def _toolkit_home(folder: Path, newest_gcc: int) -> Toolchain:
    """Make a toolkit with all that preflight reads: the header, and an nvcc that lists archs."""
    header = folder / "include" / "crt" / "host_config.h"
    header.parent.mkdir(parents=True)
    header.write_text(f"#if __GNUC__ > {newest_gcc}\n#error -- unsupported GNU version!\n#endif\n")
    nvcc = folder / "bin" / "nvcc"
    nvcc.parent.mkdir(exist_ok=True)
    nvcc.write_text("#!/bin/sh\necho \"'sm_90', 'sm_90a'\"\n")
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
