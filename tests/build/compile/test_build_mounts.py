"""Names of a build's folders, in a sandbox and without one."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from cuwheel.base.system.process import run
from cuwheel.build.compile.build_mounts import (
    build_path_map,
    packages_moved,
    private_paths,
    python_in,
)
from cuwheel.build.compile.cache.compile_cache import CacheProgram, CompileCache
from cuwheel.build.compile.environment import BuildInputs, variables
from cuwheel.build.recipe.recipe import CMake
from cuwheel.build.sandbox.backends import choose_sandbox
from cuwheel.build.sandbox.path_map import PathMap
from cuwheel.build.workspace.workspace import Workspace
from tests.support.build.launchers import BASE_PYTHON, make_inputs
from tests.support.factories import make_target, make_workspace
from tests.support.requirements import require

PATH = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


@pytest.fixture
def inputs(workspace: Workspace) -> BuildInputs:
    """All that a build has, in the work folder; a real environment of this Python."""
    workspace.folder("cache")  # marks the work folder as a build's
    prepared = make_inputs(workspace.work)
    run([BASE_PYTHON, "-m", "venv", "--without-pip", workspace.work / "env"], env=PATH)
    [packages] = (workspace.work / "env" / "lib").glob("python3*/site-packages")
    (packages / "pkg" / "include").mkdir(parents=True)
    for field in ("tree", "home", "tmp", "toolbox", "view", "launcher", "events"):
        getattr(prepared, field).mkdir()
    prepared.toolchain.home.mkdir()
    release = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = dataclasses.replace(
        prepared.python,
        site_packages=packages,
        base_python=BASE_PYTHON,
        base_version=f"{release}.0",
    )
    return dataclasses.replace(prepared, python=python)


def places_of(workspace: Workspace, inputs: BuildInputs, sandbox: str) -> PathMap:
    folders = [workspace.folder(name) for name in ("cache", "sockets", "compiles")]
    cache = CompileCache(
        program=CacheProgram(),
        program_folder=folders[0],
        socket_folder=folders[1],
        folder=folders[2],
        log_folder=inputs.events,
    )
    return build_path_map(workspace, inputs, cache, sandbox)


@pytest.fixture
def inside(workspace: Workspace, inputs: BuildInputs) -> PathMap:
    """In the sandbox that this machine has."""
    require("sandbox", "what a build sees of the machine")
    kind = choose_sandbox()
    return places_of(workspace, inputs, kind)


def shell(path_map: PathMap, inputs: BuildInputs, script: str) -> str:
    return run(path_map.command(["sh", "-c", script], inputs.tmp), env=PATH, check=True).output


def test_has_all_under_fixed_names(inside: PathMap, inputs: BuildInputs) -> None:
    output = shell(inside, inputs, "ls /cuwheel; pwd")

    assert output.split() == [
        *("built", "cache", "compiles", "cuda", "environment", "events", "home", "launcher"),
        *("packages", "python", "sockets", "source", "tmp", "toolbox", "toolkit"),
        "/cuwheel/tmp",
    ]


def test_shows_what_a_home_of_links_leads_to(
    workspace: Workspace, inputs: BuildInputs, tmp_path: Path
) -> None:
    require("sandbox", "that a build sees a toolkit of the machine outside of /usr")
    header = tmp_path / "env" / "include" / "cuda.h"
    header.parent.mkdir(parents=True)
    header.write_text("shown\n")
    (inputs.toolchain.home / "cuda.h").symlink_to(header)
    toolchain = dataclasses.replace(inputs.toolchain, linked=(tmp_path / "env",))
    linked = dataclasses.replace(inputs, toolchain=toolchain)

    places = places_of(workspace, linked, choose_sandbox())

    assert shell(places, linked, "cat /cuwheel/toolkit/cuda.h") == "shown\n"
    assert str(tmp_path / "env") in private_paths(make_target(), workspace, linked)


def test_writes_into_its_own_folders_alone(inside: PathMap, inputs: BuildInputs) -> None:
    own = ("built", "events", "home", "source", "tmp")
    shared = ("cuda", "environment", "packages", "python", "toolkit")
    script = "for name in $0 $*; do touch /cuwheel/$name/x && echo $name; done 2>/dev/null"

    words = ["sh", "-c", script, *own, *shared]
    done = run(inside.command(words, inputs.tmp), env=PATH, check=False)

    assert tuple(done.output.split()) == own


def test_environment_runs_with_its_packages(inside: PathMap, inputs: BuildInputs) -> None:
    code = "import sys; print(sys.prefix, sys.base_prefix, *sys.path[-1:])"

    output = shell(inside, inputs, f"/cuwheel/environment/bin/python -c '{code}'")

    packages = f"/cuwheel/environment/lib/{inputs.python.site_packages.parent.name}/site-packages"
    prefix, base, last = output.split()
    assert (prefix, last) == ("/cuwheel/environment", packages)
    # Before 3.11 a Python takes the prefix that it was compiled for, where that is shown.
    assert base in {"/cuwheel/python", sys.base_prefix if sys.version_info < (3, 11) else ""}


def test_base_python_runs(inside: PathMap, inputs: BuildInputs) -> None:
    python = python_in(inside, inputs.python)

    assert shell(inside, inputs, f"{python} -ISB -c 'print(1)'") == "1\n"
    assert python.is_relative_to("/cuwheel/python")


def test_shows_a_python_behind_a_link_to_its_prefix(
    workspace: Workspace, inputs: BuildInputs, tmp_path: Path
) -> None:
    """As uv has it: `~/.local/bin/python3` leads to a release by its short name."""
    real = tmp_path / "pythons" / "3.12.4"
    (real / "bin").mkdir(parents=True)
    (real / "bin" / "python3").touch()
    alias = real.with_name("3.12")
    alias.symlink_to(real)
    named = tmp_path / "named"
    (named / "bin").mkdir(parents=True)
    (named / "bin" / "python3").symlink_to(alias / "bin" / "python3")
    python = dataclasses.replace(inputs.python, base_python=named / "bin" / "python3")

    path_map = places_of(workspace, dataclasses.replace(inputs, python=python), "unshare")

    assert {real, alias, named} <= {place.target for place in path_map.extra}


def test_tmp_is_the_builds_own(inside: PathMap, inputs: BuildInputs) -> None:
    """Some programs know no TMPDIR."""
    shell(inside, inputs, "touch /tmp/from-inside")

    assert (inputs.tmp / "from-inside").exists()


@pytest.mark.parametrize("sandbox", ["none", "unshare"])
def test_packages_are_at_one_path(sandbox: str, workspace: Workspace, inputs: BuildInputs) -> None:
    path_map = places_of(workspace, inputs, sandbox)
    link = workspace.work / "packages"

    [(private, neutral)] = packages_moved(path_map, inputs.python, link)

    assert neutral == ("/cuwheel/packages" if sandbox == "unshare" else str(link))
    assert Path(private).name == "site-packages"


def test_names_are_the_same_without_a_sandbox(workspace: Workspace, inputs: BuildInputs) -> None:
    path_map = places_of(workspace, inputs, "none")

    text = f"{inputs.tree}/a.cu {workspace.work}/packages/x {inputs.python.site_packages}/x"

    assert path_map.neutral(text) == (
        "/cuwheel/source/a.cu /cuwheel/packages/x /cuwheel/packages/x"
    )


def test_the_launchers_python_takes_no_environments_settings_for_its_own(
    workspace: Workspace, inputs: BuildInputs
) -> None:
    """A Python that was moved finds its library by where it is, not by what it was compiled for."""
    places_of(workspace, inputs, "none")
    link = inputs.launcher / "python"
    link.symlink_to(BASE_PYTHON)

    options = ("-ISB", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))")
    output = run([link, *options], env={})

    assert output.output == run([BASE_PYTHON, *options], env={}).output
    assert not list(inputs.launcher.parent.glob("pyvenv.cfg"))


def test_states_no_folder_of_machine(
    workspace: Workspace, inputs: BuildInputs, tmp_path: Path
) -> None:
    path_map = places_of(workspace, inputs, "none")
    prepared = variables(make_target(build=CMake()), inputs)

    neutral = {name: path_map.neutral(value) for name, value in prepared.items()}

    assert not [name for name, value in neutral.items() if str(tmp_path) in value]


def test_folders_of_a_person_are_private(workspace: Workspace, inputs: BuildInputs) -> None:
    private = private_paths(make_target(), workspace, inputs)

    assert {str(inputs.toolchain.home), str(workspace.work), str(workspace.cache)} <= set(private)
    assert not {"/usr", "/opt", "/"} & set(private)
