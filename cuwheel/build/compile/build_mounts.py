"""The folders of a target's build with their names, and the paths that its wheel must not hold."""

from __future__ import annotations

from pathlib import Path

from cuwheel.base.system.regular_files import read_text
from cuwheel.build.compile.cache.compile_cache import CompileCache
from cuwheel.build.compile.environment import BuildInputs
from cuwheel.build.recipe.target import Target
from cuwheel.build.sandbox.mounts import (
    Mount,
    foreign_libraries,
    interpreter_mounts,
    is_of_system,
    prefix_mounts,
)
from cuwheel.build.sandbox.path_map import TOP, BuildPath, PathMap
from cuwheel.build.workspace.records import Environment
from cuwheel.build.workspace.workspace import Workspace

_PYTHON = TOP / "python"
_MACHINES_OWN = ("home", "executable", "command")  # lines of pyvenv.cfg with paths of the machine


def build_path_map(
    workspace: Workspace, inputs: BuildInputs, cache: CompileCache, sandbox: str
) -> PathMap:
    """Return the path map of a build."""
    env = inputs.python
    work = workspace.work
    paths = [
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
    if cache.folder.is_dir():
        paths.append(BuildPath(name="compiles", real=cache.folder, kind="write"))
    paths += [
        BuildPath(name=name, real=real, has_sources=True)
        for name, real in (
            ("target-python", inputs.target_python),
            ("target-libraries", inputs.target_libraries),
            ("resources", inputs.resources),
            ("compiler", inputs.toolchain.compiler),
        )
        if real and real.is_dir()
    ]
    extra = tuple(_extra(workspace, inputs))
    return PathMap(named=tuple(paths), sandbox=sandbox, extra=extra)


def prefix_of(env: Environment) -> Path:
    """Return the folder of a Python environment."""
    return env.python.parent.parent


def python_in(path_map: PathMap, env: Environment) -> Path:
    """Return the base Python as the build sees it."""
    real = env.base_python.resolve()
    return _PYTHON / "bin" / real.name if path_map.is_sandboxed else real


def packages_moved(path_map: PathMap, env: Environment, link: Path) -> tuple[tuple[str, str], ...]:
    """Return the folder of the packages' headers, and the path that serves every Python."""
    if not path_map.is_sandboxed:
        return ((str(env.site_packages), str(link)),)
    inside = TOP / "environment" / env.site_packages.relative_to(prefix_of(env))
    return ((str(inside), str(TOP / "packages")),)


def headers_moved(path_map: PathMap, env: Environment, headers: Path) -> tuple[str, str]:
    """Return the headers of this machine's Python, and those of the one that the wheel is for."""
    prefix = _base_prefix(env)
    release = ".".join(env.base_version.split(".")[:2])
    top = _PYTHON if path_map.is_sandboxed else prefix
    return (str(top / "include" / f"python{release}"), path_map.inside(str(headers)))


def _python_names(env: Environment) -> list[BuildPath]:
    """Return the Python that the environment was made from; of one in /usr, only its own headers.

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
    env, toolchain = inputs.python, inputs.toolchain
    prefix = _base_prefix(env)
    # An environment holds the path of its base, which is this machine's. Not by its own name: the
    # launcher's Python, one folder deeper, would take the file for its own.
    lines = read_text(prefix_of(env) / "pyvenv.cfg").splitlines()
    kept = [line for line in lines if line.partition("=")[0].strip() not in _MACHINES_OWN]
    settings = workspace.folder("tmp").with_name("environment.cfg")
    settings.write_text("\n".join([f"home = {_PYTHON / 'bin'}", *kept, ""]))
    mounts = [
        *prefix_mounts(prefix, _PYTHON),
        Mount(source=settings, target=TOP / "environment" / "pyvenv.cfg"),
        # Some programs know no TMPDIR.
        Mount(source=inputs.tmp, target=Path("/tmp"), kind="write"),  # noqa: S108
    ]
    # A Python may find its own library, a conda toolchain or a pinned compiler its own files, by
    # the path that they were installed at; a compiler that the caller chose may be anywhere.
    own = {prefix, env.base_python.parent.parent, *toolchain.linked}
    if toolchain.compiler is not None:
        own.add(toolchain.compiler)
    elif toolchain.cxx is not None:
        own.add(toolchain.home)
    elif inputs.machine.host_compiler is not None:
        own.add(inputs.machine.host_compiler.resolve().parent.parent)
    # No home: a `~/bin/g++` doesn't bring the keys along.
    prefixes = [path for path in sorted(own) if not is_of_system(path)]
    shown = [mount for path in prefixes for mount in prefix_mounts(path, path)]
    folders = [mount.target for mount in shown]
    # What leads to the Python; a link in a folder that is shown comes along with it. A library next
    # to the prefix, and found from there, has to be next to its other name too.
    leading = [
        mount
        for mount in interpreter_mounts(env.base_python)
        if not any(mount.target.is_relative_to(folder) for folder in folders)
    ]
    leading += foreign_libraries(env.base_python.resolve(), _PYTHON)
    return [*mounts, *shown, *dict.fromkeys(leading)]


def private_paths(target: Target, workspace: Workspace, inputs: BuildInputs) -> tuple[str, ...]:
    """Return the folders of this user and machine that the wheel must not name."""
    folders = {
        workspace.work,
        workspace.cache,
        target.root,
        inputs.toolchain.home,
        *filter(None, [inputs.toolchain.compiler]),
        *inputs.toolchain.linked,
        prefix_of(inputs.python),
        _base_prefix(inputs.python),
        Path.home(),
    }
    return tuple(sorted(str(path) for path in folders if _is_private(path)))


def _base_prefix(env: Environment) -> Path:
    return env.base_python.resolve().parent.parent


def _is_private(folder: Path) -> bool:
    """Return False for `/usr`, `/opt` and the like, which identify no machine."""
    shared = any(folder.is_relative_to(top) for top in ("/usr", "/opt"))
    return len(folder.parts) > 2 and not shared  # noqa: PLR2004 - the root and one name
