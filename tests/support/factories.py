"""Targets and workspaces for tests: sound by default, each changed only in what a test is about."""

from __future__ import annotations

import base64
import contextlib
import csv
import dataclasses
import functools
import hashlib
import io
import os
import random
import re
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rich.console

from cuwheel.base.caller import Caller
from cuwheel.base.errors import InterpreterNotFoundError
from cuwheel.base.fetch.retry import RetryPolicy
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.pythons import Interpreter, own_python
from cuwheel.build.pipeline.machine import read_machine
from cuwheel.build.recipe.catalogue import find_recipe, load_catalogue
from cuwheel.build.recipe.link import Link, Mode
from cuwheel.build.recipe.platform import Platform, own_platform
from cuwheel.build.recipe.recipe import Recipe, Setuptools, Smoke
from cuwheel.build.recipe.source import Sdist
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import BuiltWheel, SourceTree, Toolchain
from cuwheel.build.workspace.request import BuildRequest
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import toolkit_by_release
from tests.support.requirements import sandbox_here

HASTY = RetryPolicy(pause=0.01)  # as often as ever, and no waiting in between
EPOCH = 1_700_000_000  # of every source in the tests, seconds since 1970

_RECIPE = Recipe(
    name="tiny-cuda",
    version="1.2.3",
    license="Apache-2.0",
    homepage="https://example.invalid/tiny-cuda",
    maintainers=("someone",),
    source=Sdist(project="tiny-cuda", sha256="0" * 64),
    toolkits=("13.0",),
    archs=("90",),
    requires=("setuptools",),
    build=Setuptools(),
    link=Link("cudart"),
    smoke=Smoke(imports=("tiny_cuda",)),
)


def make_recipe(**changes: Any) -> Recipe:
    """A small sound recipe with the given fields changed."""
    return dataclasses.replace(_RECIPE, **changes)


def make_target(  # noqa: PLR0913 - the fields of a target, each with a default
    *,
    toolkit: str = "13.0",
    python: str = "3.11",
    serves: str = "each",
    archs: tuple[str, ...] | None = None,
    provider: str = "pypi",
    root: Path | None = None,
    mode: Mode | None = None,
    source_override: Path | None = None,
    platform: Platform | None = None,
    host_compiler: str = "system",
    **recipe: Any,
) -> Target:
    """A target of the small recipe; names that a target doesn't know change the recipe.

    `python` is the target's; `serves` is the field `python` of the recipe.
    """
    changed = make_recipe(python=serves, **recipe)
    return Target(
        recipe=changed,
        toolkit=toolkit_by_release(toolkit),
        python=python,
        framework=changed.framework_for(toolkit),
        archs=changed.archs_for(toolkit) if archs is None else archs,
        provider=provider,
        root=root or Path("unused"),
        mode=mode or changed.link.mode,
        source_override=source_override,
        platform=platform or own_platform(),
        host_compiler=host_compiler,
    )


def locked_target(**changes: Any) -> Target:
    """A target of the tests' own project, whose lock is there and sound."""
    root = ROOT / "tests" / "project"
    found = find_recipe("tiny-skbuild", load_catalogue([root])).recipe
    assert found
    return make_target(root=root, **{"name": found.name, "requires": found.requires, **changes})


def make_workspace(folder: Path, **changes: Any) -> Workspace:
    """A workspace below `folder`; what its console says is collected for `heard`."""
    terminal = rich.console.Console(file=io.StringIO(), width=200)
    workspace = Workspace(
        cache=folder / "cache",
        work=folder / "work",
        dist=folder / "dist",
        console=Console(terminal),
        caller=Caller(os.environ),
    )
    return dataclasses.replace(workspace, **changes)


def later(workspace: Workspace) -> Workspace:
    """The same folders as another command finds them: nothing was looked at yet."""
    return dataclasses.replace(workspace, checked={})


def make_job(
    target: Target,
    workspace: Workspace,
    *,
    python: Interpreter | InterpreterNotFoundError | None = None,
    **settings: Any,
) -> Job:
    """A job on this very machine; the Python is the one that runs the tests, or `python`."""
    request = BuildRequest(**{"sandbox": sandbox_here(), **settings})
    machine = read_machine(
        request, python or own_python(), os.environ, has_own_compiler=target.has_own_compiler
    )
    return Job(target=target, settings=request, workspace=workspace, machine=machine)


def heard(workspace: Workspace) -> str:
    """Everything that the workspace's console said so far."""
    stream = workspace.console.terminal.file
    if not isinstance(stream, io.StringIO):
        raise TypeError("only a workspace of make_workspace remembers what was said")
    return stream.getvalue()


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that don't compress, the same in every run."""
    return random.Random(seed).randbytes(size)


def write_compiler(folder: Path, name: str, version: str) -> Path:
    """A stand-in for a GCC that this machine doesn't have: it only says which one it is."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(
        f'#!/bin/sh\ncase "$1" in\n--version) echo "{name} (Stand-in) {version}" ;;\n'
        f"*) echo {version} ;;\nesac\n"
    )
    path.chmod(0o755)
    return path


_SOURCES = frozenset({".c", ".cpp", ".cu"})
_READS_MORE = ("-I", "-L", "@")  # options that name files which the key hasn't
_TOOLS = ("gcc", "g++", "as", "ld")  # that compilers run
_C_LIBRARY = ("/usr/include/stdio.h", "/var/lib/dpkg/status")  # change with what is installed
_COMPILED = Caller(os.environ).cache / "test-compiled"


def compile_library(path: Path, *words: str | Path) -> Path:
    """Run a compiler: `words` are it and its arguments; it writes the library `path`."""
    return compile_file(path, *words, "-shared")


def compile_file(path: Path, *words: str | Path) -> Path:
    """Run a compiler for `path`; what one wrote from the same text in any run is copied."""
    path.parent.mkdir(parents=True, exist_ok=True)
    programs = [Path(shutil.which(word) or word) for word in (words[0], *_TOOLS)]
    parts = (*map(_identity, programs), *map(_as_read, words[1:]))
    kept = _kept_folder() / hashlib.sha256(repr(parts).encode()).hexdigest()
    with contextlib.suppress(FileNotFoundError):
        path.write_bytes(kept.read_bytes())
        path.chmod(0o755)
        return path
    process.run([*words, "-o", path], env={"PATH": os.environ["PATH"]})
    home = programs[0].parent.parent
    if not any(_is_of_this_run(word, path, home) for word in (*words[1:], *map(str, programs))):
        part = kept.with_name(f"{kept.name}.{os.getpid()}")
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(path.read_bytes())
        part.replace(kept)
    return path


@functools.cache
def _kept_folder() -> Path:
    """The folder for what was compiled with this C library; that for an older one goes."""
    facts = [_identity(Path(name)) for name in _C_LIBRARY]
    folder = _COMPILED / hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
    for older in () if folder.exists() else _COMPILED.glob("*"):
        remove_tree(older)
    return folder


def _identity(program: Path) -> tuple[object, ...]:
    """What changes when another is installed in its place."""
    if not program.exists():
        return (str(program),)
    status = program.stat()
    return (str(program), status.st_size, status.st_mtime_ns)


def _as_read(word: str | Path) -> tuple[str, ...]:
    """A word; of a file its content, and what of its path gets into the result."""
    if not isinstance(word, Path) or not word.is_file():
        return (str(word),)
    content = word.read_bytes()
    is_named = word.suffix in _SOURCES or b"\0%s\0" % word.name.encode() in content  # by soname
    return (word.name if is_named else str(word), hashlib.sha256(content).hexdigest())


def _is_of_this_run(word: str | Path, path: Path, home: Path) -> bool:
    """Return True for a word that another run doesn't have, or with files that the key hasn't."""
    if isinstance(word, Path) and word.suffix in _SOURCES:
        return b'#include "' in word.read_bytes()
    text = _as_read(word)[0]
    reads_more = text.startswith(_READS_MORE) and not text.startswith(f"-L{home}/")
    return reads_more or tempfile.gettempdir() in text or str(path.parent.parent) in text


def compile_cuda(path: Path, home: Path, source: Path, *flags: str | Path) -> Path:
    """Compile a library with a toolkit's nvcc; it finds the toolkit's libraries without rpath."""
    return compile_library(
        path, home / "bin" / "nvcc", "-ccbin=g++", "-Xcompiler=-fPIC", source, *flags
    )


def compile_device_file(path: Path, home: Path, source: Path, arch: str) -> Path:
    """Compile a file of device code alone; its suffix says of what kind: cubin, fatbin, ptx."""
    kind = f"-{path.suffix.removeprefix('.')}"
    return compile_file(path, home / "bin" / "nvcc", "-ccbin=g++", kind, f"-arch=sm_{arch}", source)


def write_wheel(  # noqa: PLR0913 - the facts of a wheel, each with a default
    folder: Path,
    files: Mapping[str, bytes | Path],
    *,
    name: str = "tiny_cuda",
    version: str = "1.2.3",
    tag: str = "cp311-cp311-linux_x86_64",
    requires: tuple[str, ...] = (),
    python: str = "",
    metadata: str = "",
    modes: Mapping[str, int] | None = None,
    year: int = 1980,
) -> Path:
    """Write a wheel as a build backend would, in the first minute of a year."""
    stem = f"{name}-{version}"
    lines = "".join(f"Requires-Dist: {text}\n" for text in requires)
    extras = dict.fromkeys(re.findall(r'extra == "([^"]+)"', lines))
    lines += "".join(f"Provides-Extra: {extra}\n" for extra in extras)  # else pip takes none
    lines += f"Requires-Python: {python}\n" * bool(python) + metadata
    contents = {
        **{key: _content(value) for key, value in files.items()},
        f"{stem}.dist-info/METADATA": (
            f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{lines}\nA text.\n"
        ).encode(),
        f"{stem}.dist-info/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n"
        ).encode(),
    }
    path = folder / f"{stem}-{tag}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for key, content in contents.items():
            entry = zipfile.ZipInfo(key, (year, 1, 1, 0, 0, 0))
            entry.external_attr = (modes or {}).get(key, 0o644) << 16
            archive.writestr(entry, content)
        archive.writestr(f"{stem}.dist-info/RECORD", _record(contents, f"{stem}.dist-info/RECORD"))
    return path


def save_built(workspace: Workspace, wheel: Path, *, private_paths: tuple[str, ...] = ()) -> None:
    """Leave in the work folder what the stages before the repair leave."""
    built = BuiltWheel(
        path=wheel,
        log=wheel.with_suffix(".log"),
        peak_memory=0,
        environment=(),
        private_paths=private_paths,
        not_hermetic=(),
    )
    source = SourceTree(path=wheel.parent, origin="", sha256="", epoch=EPOCH, pinned=True)
    home = Toolchain(
        home=wheel.parent, version="13.0.88", provider="pypi", fingerprint="", pinned=True
    )
    workspace.save("toolchain", home)
    workspace.save("build", built)
    workspace.save("patch", source)


def commit_all(folder: Path, **env: str) -> str:
    """Make a folder a git repository with one commit of all that is in it; gives back its id."""
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, **env}
    who = ["-c", "user.name=me", "-c", "user.email=me@example.invalid"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "all"]):
        process.run(["git", *words], env=env, cwd=folder)
    return process.run(["git", "rev-parse", "HEAD"], env=env, cwd=folder).output.strip()


def _content(value: bytes | Path) -> bytes:
    return value if isinstance(value, bytes) else value.read_bytes()


def _record(contents: Mapping[str, bytes], own: str) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for key, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        writer.writerow((key, f"sha256={digest}", len(content)))
    writer.writerow((own, "", ""))
    return text.getvalue()
