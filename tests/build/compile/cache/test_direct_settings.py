"""Settings of the launcher's direct mode, and the size of the folder of objects."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from cuwheel.build.compile.build_mounts import build_path_map
from cuwheel.build.compile.cache.compile_cache import CacheProgram, CompileCache
from cuwheel.build.compile.cache.direct_settings import direct_settings
from cuwheel.build.compile.environment import BuildInputs
from tests.support.build.launchers import make_inputs
from tests.support.factories import make_workspace


@pytest.fixture
def inputs(tmp_path: Path) -> BuildInputs:
    inputs = make_inputs(tmp_path)
    for folder in (inputs.tree, inputs.tmp, inputs.python.base_python.parent.parent / "include"):
        folder.mkdir(parents=True)
    (inputs.python.python.parent.parent).mkdir(parents=True)
    (inputs.python.python.parent.parent / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return inputs


def settings_of(inputs: BuildInputs, *, program: str = "sccache", sandbox: str = "none") -> Any:
    folder = inputs.tree.parent
    cache = CompileCache(
        program=CacheProgram(name=program),
        folder=folder / "compiles",
        program_folder=folder / "program",
        socket_folder=folder / "sockets",
        log_folder=folder / "events",
    )
    cache.folder.mkdir(exist_ok=True)
    path_map = build_path_map(make_workspace(folder), inputs, cache, sandbox)
    return direct_settings(inputs, path_map, cache, "compilers")


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
    assert settings_of(inputs, program="") == {}


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
