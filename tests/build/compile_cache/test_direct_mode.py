"""What the engine tells the launcher's direct mode, and how large the folder of objects gets."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.build.compile_cache.backends import CompileCache
from cuwheel.build.compile_cache.choice import CacheChoice
from cuwheel.build.compile_cache.direct_mode import direct_settings
from cuwheel.build.compile_cache.folders import CachePaths
from cuwheel.build.paths import build_path_map
from tests.support.factories import make_workspace
from tests.support.launchers import make_inputs

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.build.environment import BuildInputs


@pytest.fixture
def inputs(tmp_path: Path) -> BuildInputs:
    inputs = make_inputs(tmp_path)
    for folder in (inputs.tree, inputs.tmp, inputs.python.base_python.parent.parent / "include"):
        folder.mkdir(parents=True)
    (inputs.python.python.parent.parent).mkdir(parents=True)
    (inputs.python.python.parent.parent / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return inputs


def settings_of(inputs: BuildInputs, *, cache: str = "sccache", sandbox: str = "none") -> Any:
    folder = inputs.tree.parent
    paths = CachePaths(
        cache_folder=folder / "compiles",
        program_folder=folder / "program",
        socket_folder=folder / "sockets",
        log_folder=folder / "events",
    )
    paths.cache_folder.mkdir(exist_ok=True)
    choice = CacheChoice(cache=CompileCache(name=cache), paths=paths, remote=None)
    path_map = build_path_map(make_workspace(folder), inputs, paths, sandbox)
    return direct_settings(inputs, path_map, choice, "compilers")


def test_names_the_folders_as_a_sandbox_has_them(inputs: BuildInputs) -> None:
    settings = settings_of(inputs, sandbox="bwrap")

    assert settings["objects"] == "/cuwheel/compiles/direct"
    assert settings["tree"] == "/cuwheel/source"
    assert settings["scratch"] == ("/cuwheel/tmp", "/tmp")
    assert {"/cuwheel/toolkit", "/cuwheel/packages", "/usr/include"} <= set(settings["pinned"])
    assert "/usr" not in settings["pinned"]


def test_names_the_real_folders_without_a_sandbox(inputs: BuildInputs) -> None:
    settings = settings_of(inputs)

    assert settings["tree"] == str(inputs.tree.resolve())
    assert settings["scratch"] == (str(inputs.tmp.resolve()),)


def test_is_off_without_a_compile_cache(inputs: BuildInputs) -> None:
    assert settings_of(inputs, cache="") == {}


def test_is_off_where_the_toolkit_is_the_machines(inputs: BuildInputs) -> None:
    toolchain = dataclasses.replace(inputs.toolchain, pinned=False)

    assert settings_of(dataclasses.replace(inputs, toolchain=toolchain)) == {}


def test_identity_follows_headers_of_python(inputs: BuildInputs) -> None:
    before = settings_of(inputs)["identity"]
    header = inputs.python.base_python.parent.parent / "include" / "pyconfig.h"

    header.write_text("")

    assert settings_of(inputs)["identity"] != before


def test_identity_follows_packages(inputs: BuildInputs) -> None:
    python = dataclasses.replace(inputs.python, fingerprint="another lock")

    changed = settings_of(dataclasses.replace(inputs, python=python))

    assert changed["identity"] != settings_of(inputs)["identity"]
