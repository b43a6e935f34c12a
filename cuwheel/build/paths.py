"""The folders of a target's build with their names, and what must not be found in its wheel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.sandbox.backends import Mount, is_of_system
from cuwheel.sandbox.libraries import foreign_libraries
from cuwheel.sandbox.path_map import TOP, BuildPath, PathMap
from cuwheel.sandbox.prefixes import interpreter_mounts, prefix_mounts
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from cuwheel.build.compile_cache.folders import CachePaths
    from cuwheel.build.environment import BuildInputs
    from cuwheel.model.target import Target
    from cuwheel.workspace.records import Environment
    from cuwheel.workspace.workspace import Workspace


_PYTHON = TOP / "python"
_MACHINES_OWN = ("home", "executable", "command")  # lines of pyvenv.cfg with paths of the machine


def build_path_map(
    workspace: Workspace, inputs: BuildInputs, cache: CachePaths, sandbox: str
) -> PathMap:
    """Where a build has its folders.

    Args:
        workspace: the target's own folders.
        inputs: what the build works on.
        cache: folders of its compile cache.
        sandbox: the kind of sandbox, from `choose_sandbox`.
    """
    env = inputs.python
    work = workspace.work
    named = [
        BuildPath(name="source", real=inputs.tree, kind="write", has_sources=True),
        BuildPath(name="cuda", real=inputs.view, has_sources=True),
        BuildPath(name="toolkit", real=inputs.toolchain.home, has_sources=True),
        BuildPath(name="environment", real=prefix_of(env), has_sources=True),
        BuildPath(name="packages", real=env.linked_packages, has_sources=True),
        # Where there is no sandbox, a link is the path that every Python's packages have.
        BuildPath(name="packages", real=work / "packages", kind="name", has_sources=True),
        BuildPath(name="launcher", real=inputs.launcher),
        BuildPath(name="tmp", real=inputs.tmp, kind="write", has_sources=True),
        BuildPath(name="home", real=inputs.home, kind="write"),
        BuildPath(name="toolbox", real=inputs.toolbox),
        BuildPath(name="built", real=workspace.folder("built"), kind="write"),
        BuildPath(name="events", real=inputs.events, kind="write"),
        BuildPath(name="cache", real=cache.program_folder),
        BuildPath(name="sockets", real=cache.socket_folder, kind="write"),
        *_python_names(env),
    ]
    if cache.cache_folder.is_dir():
        named.append(BuildPath(name="compiles", real=cache.cache_folder, kind="write"))
    if inputs.target_python.is_dir():
        named.append(BuildPath(name="target-python", real=inputs.target_python, has_sources=True))
    if inputs.target_libraries.is_dir():
        libraries = inputs.target_libraries
        named.append(BuildPath(name="target-libraries", real=libraries, has_sources=True))
    if inputs.resources.is_dir():
        named.append(BuildPath(name="resources", real=inputs.resources, has_sources=True))
    extra = tuple(_extra(workspace, inputs))
    return PathMap(named=tuple(named), sandbox=sandbox, extra=extra)


def prefix_of(env: Environment) -> Path:
    """The folder of a Python environment."""
    return env.python.parent.parent


def python_in(path_map: PathMap, env: Environment) -> Path:
    """The base Python as the build sees it."""
    real = env.base_python.resolve()
    return _PYTHON / "bin" / real.name if path_map.is_sandboxed else real


def packages_moved(path_map: PathMap, env: Environment, link: Path) -> tuple[tuple[str, str], ...]:
    """Where packages say that their headers are, and the path that serves every Python.

    Args:
        path_map: of the build.
        env: its Python environment.
        link: a link to its packages, for builds without a sandbox.
    """
    if not path_map.is_sandboxed:
        return ((str(env.site_packages), str(link)),)
    inside = TOP / "environment" / env.site_packages.relative_to(prefix_of(env))
    return ((str(inside), str(TOP / "packages")),)


def headers_moved(path_map: PathMap, env: Environment, headers: Path) -> tuple[str, str]:
    """Where this machine's Python has its headers, and those of the one that the wheel is for.

    Args:
        path_map: of the build.
        env: its Python environment.
        headers: of the other Python, on this machine.
    """
    prefix = _base_prefix(env)
    release = ".".join(env.base_version.split(".")[:2])
    top = _PYTHON if path_map.is_sandboxed else prefix
    return (str(top / "include" / f"python{release}"), path_map.inside(str(headers)))


def _python_names(env: Environment) -> list[BuildPath]:
    """The Python that the environment was made from; of one in /usr, only its own headers.

    All else below /usr has the same name on every machine as it is.
    """
    real = _base_prefix(env)
    release = ".".join(env.base_version.split(".")[:2])
    include = Path("include") / f"python{release}"
    headers = BuildPath(
        name=f"python/{include}", real=real / include, kind="name", has_sources=True
    )
    prefixes = {real, env.base_python.parent.parent}
    whole = [
        BuildPath(name="python", real=prefix, kind="name", has_sources=True)
        for prefix in sorted(prefixes)
        if _is_private(prefix)
    ]
    return [headers, *whole]


def _extra(workspace: Workspace, inputs: BuildInputs) -> list[Mount]:
    env = inputs.python
    prefix = _base_prefix(env)
    mounts = [
        *prefix_mounts(prefix, _PYTHON),
        # An environment holds the path of its base, which is this machine's.
        Mount(source=_write_settings(workspace, env), target=TOP / "environment" / "pyvenv.cfg"),
        # Some programs know no TMPDIR.
        Mount(source=inputs.tmp, target=Path("/tmp"), kind="write"),  # noqa: S108
    ]
    # A Python may find its own library, a conda toolchain its own files, by the path that they
    # were installed at; a compiler that the caller chose may be anywhere.
    own = {prefix, env.base_python.parent.parent}
    if inputs.toolchain.cxx is not None:
        own.add(inputs.toolchain.home)
    elif inputs.machine.host_compiler is not None:
        own.add(inputs.machine.host_compiler.resolve().parent.parent)
    # No home: a `~/bin/g++` doesn't bring the keys along.
    prefixes = [path for path in sorted(own) if not is_of_system(path)]
    shown = [mount for path in prefixes for mount in prefix_mounts(path, path)]
    # What leads to the Python; a link in a folder that is shown comes along with it.
    folders = [mount.target for mount in shown]
    links = [
        mount
        for mount in interpreter_mounts(env.base_python)
        if not any(mount.target.is_relative_to(folder) for folder in folders)
    ]
    # One that lies beside the prefix, and is found from there, has to be beside its other name too.
    beside = [
        mount
        for mount in foreign_libraries(env.base_python.resolve(), _PYTHON)
        if mount not in links
    ]
    return [*mounts, *shown, *links, *beside]


def _write_settings(workspace: Workspace, env: Environment) -> Path:
    """The environment's settings with the base Python where the sandbox has it."""
    lines = read_text(prefix_of(env) / "pyvenv.cfg").splitlines()
    kept = [line for line in lines if line.partition("=")[0].strip() not in _MACHINES_OWN]
    # Not by that name: the launcher's Python, one folder deeper, would take it for its own.
    path = workspace.folder("tmp").with_name("environment.cfg")
    path.write_text("\n".join([f"home = {_PYTHON / 'bin'}", *kept, ""]))
    return path


def private_paths(target: Target, workspace: Workspace, inputs: BuildInputs) -> tuple[str, ...]:
    """Folders whose names must not be in the wheel; system folders say nothing about anyone."""
    folders = {
        workspace.work,
        workspace.cache,
        target.root,
        inputs.toolchain.home,
        prefix_of(inputs.python),
        _base_prefix(inputs.python),
        Path.home(),
    }
    return tuple(sorted(str(path) for path in folders if _is_private(path)))


def _base_prefix(env: Environment) -> Path:
    return env.base_python.resolve().parent.parent


def _is_private(folder: Path) -> bool:
    """`/usr`, `/opt` and the like say nothing about a machine; anything deeper elsewhere may."""
    shared = any(folder.is_relative_to(top) for top in ("/usr", "/opt"))
    return len(folder.parts) > 2 and not shared  # noqa: PLR2004 - the root and one name
