"""Canary: does this nvcc, behind the launcher, give equal objects at two places and times?

Some of what the launcher relies on is not documented (`--orig_src_path_name` for cudafe++), so it
is tried for each toolchain and host compiler: what holds for CUDA 13.0 may not hold for 13.4. It
was found by taking objects of nvcc 13.0 apart: docs/adr/0015.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.build.launcher import toolkit_view
from cuwheel.build.launcher.toolkit_view import (
    DEVICE_TOOLS,
    LAUNCHER_FILES,
    ViewPaths,
    launcher_settings,
    make_launcher,
    make_view,
)
from cuwheel.errors import ToolchainError
from cuwheel.system.compilers import SYSTEM_PATH
from cuwheel.system.files import (
    file_lock,
    remove_tree,
    sha256_of_file,
    write_atomically,
)
from cuwheel.system.parallel import Stop
from cuwheel.system.process import run
from cuwheel.workspace.serialization import read_record, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

_SOURCES = {
    # Names of internal functions hold a hash of the source's path.
    "anonymous": "namespace { __global__ void k(int *p) { *p = 1; } }\n"
    "void f(int *p) { k<<<1, 1>>>(p); }\n",
    # Where nothing in a file has a name of its own to the outside, nvcc takes its process id.
    "closed": "static __global__ void k(int *p) { *p = 2; }\n"
    "namespace { struct At { At() { k<<<1, 1>>>(nullptr); } } at; }\n",
    "stamp": "__device__ const char *d() { return __FILE__ __DATE__ __TIME__; }\n"
    "const char *h() { return __FILE__ __DATE__ __TIME__; }\n",
    "separable": "namespace { __device__ int v; }\n__device__ int *g() { return &v; }\n",
}
# Links libdevice, and has a kernel that the host calls by its stub.
_SHARED = (
    "__global__ void k(float *p, int n) { for (int i = 0; i < n; ++i) p[i] = sinf(p[i]) / p[n]; }\n"
    "void f(float *p) { k<<<1, 1>>>(p, 1); }\n"
)
# As nvcc's own help names them. The override of cudafe++ is in no help: it is tried.
_FLAGS = {"seed": "-frandom-seed", "objtemp": "-objtemp"}
_EPOCH = "315532800"
# What turns a preprocessed source into a cubin; in conda's layout below a folder of the target.
_DEVICE_FILES = ("nvvm/bin/cicc", "nvvm/libdevice/libdevice.10.bc", "bin/ptxas")
_TARGET = "targets/x86_64-linux"


@dataclass(frozen=True, kw_only=True)
class Canary:
    """What was found.

    Attributes:
        flags: the options for equal bytes that this nvcc has, as `launch.Settings` names them.
        by_path: sources whose objects differ between two folders; a fixed path makes them equal.
            always: sources whose objects differ in one folder too.
        device_tools: SHA-256 over the programs that make device code; empty where that of one
            platform can't be taken for another (`standalone/launcher/device_code.py`).
    """

    flags: tuple[str, ...]
    by_path: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    device_tools: str = ""


class _CompileError(Exception):
    """What the compiler said: one of the files doesn't compile with the flags that were tried."""


@dataclass(frozen=True, kw_only=True)
class _Tried:
    """One folder in which everything is compiled, with a view of its own."""

    folder: Path
    view: ViewPaths


def run_canary(toolchain: ViewPaths, fingerprint: str, cache: Path) -> Canary:
    """Compile small files at two places and compare; what was found is kept in the cache.

    Two of these on one toolchain wait for each other.

    Args:
        toolchain: real paths of toolkit, compilers and Python; its view and launcher aren't used.
        fingerprint: of toolkit and host compiler.
        cache: cuwheel's cache.

    Raises:
        ToolchainError: this nvcc compiles nothing.
    """
    code = "".join(
        sha256_of_file(path)
        for path in (Path(__file__), Path(toolkit_view.__file__), *LAUNCHER_FILES)
    )
    key = hashlib.sha256(f"{fingerprint} {code}".encode()).hexdigest()[:16]
    folder = cache / "canaries" / key
    record = folder.with_suffix(".json")
    _remove_dead(folder.parent)
    with file_lock(folder.with_suffix(".lock")):
        if kept := read_record(record, Canary):
            return kept
        # Not where temporary files go: no program may be allowed to run there.
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{key}.") as aside:
            found = _try_all(toolchain, Path(aside))
        write_atomically(record, to_json(found))
    return found


def _remove_dead(folder: Path) -> None:
    """Remove what killed canaries left, of whichever toolchain: who lives holds its lock."""
    for aside in folder.glob(".*.*"):
        lock = folder / f"{aside.name.split('.')[1]}.lock"
        with contextlib.suppress(TimeoutError), file_lock(lock, gives_up=lambda: True):
            remove_tree(aside)


def _try_all(toolchain: ViewPaths, folder: Path) -> Canary:
    nvcc = toolchain.toolkit / "bin" / "nvcc"
    options = run([nvcc, "--help"], env={"PATH": SYSTEM_PATH}).output
    flags = tuple(name for name, option in _FLAGS.items() if option in options)
    with ThreadPoolExecutor() as pool:
        shared = pool.submit(_shared_tools, toolchain, folder, flags)
        found = _try_flags(toolchain, folder, flags)
        return dataclasses.replace(found, device_tools=shared.result())


def _try_flags(toolchain: ViewPaths, folder: Path, flags: tuple[str, ...]) -> Canary:
    with contextlib.suppress(_CompileError):
        return _compare(toolchain, folder, ("path", *flags))
    try:
        return _compare(toolchain, folder, flags)
    except _CompileError as problem:
        raise _compiles_nothing(str(problem)) from problem


def _shared_tools(toolchain: ViewPaths, folder: Path, flags: tuple[str, ...]) -> str:
    """What stands for the device compilers, if code that one platform made serves another.

    Three compiles of one file: as usual, one that keeps its device code, one that takes it.
    """
    digests = _digests_of_device_tools(toolchain.toolkit)
    if not digests or set(flags) != set(_FLAGS):  # else objects differ with each process
        return ""
    tried = _prepare(toolchain, folder / "shared", flags)
    (tried.folder / "source" / "shared.cu").write_text(_SHARED)
    events = tried.folder / "events"
    variables = {
        "CUWHEEL_DEVICE_CODE": str(tried.folder / "device"),
        "CUWHEEL_DEVICE_TOOLS": digests,
        "CUWHEEL_EVENTS": str(events),
    }
    try:
        made = {_compile(tried, "shared")}
        for platform in ("first", "second"):
            made.add(_compile(tried, "shared", {**variables, "CUWHEEL_PLATFORM": platform}))
    except _CompileError:
        return ""
    taken = events.read_text().count('"kind": "shared"') if events.exists() else 0
    return digests if len(made) == 1 and taken == len(DEVICE_TOOLS) else ""


def _digests_of_device_tools(toolkit: Path) -> str:
    """SHA-256 over all that makes device code of what is preprocessed; empty: it isn't there."""
    found = [
        next((top / name for top in (toolkit, toolkit / _TARGET) if (top / name).exists()), None)
        for name in _DEVICE_FILES
    ]
    parts = [sha256_of_file(path) for path in found if path]
    if len(parts) != len(_DEVICE_FILES):
        return ""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _compiles_nothing(said: str) -> ToolchainError:
    """The error, with the cause where what the compiler said shows one that is known."""
    from cuwheel.explain.catalogue import Weight  # noqa: PLC0415 - only where it failed
    from cuwheel.explain.explanation import Explainer  # noqa: PLC0415 - as above

    causes = Explainer().explain(io.BytesIO(said.encode())).causes
    why, fix = said, "check that the host compiler works and that this nvcc supports it"
    if causes and causes[0].weight > Weight.PERHAPS:
        found = causes[0]
        why, fix = f"{found.why}\n{found.evidence[0].text}", f"{found.fix}\nmore: {found.anchor}"
    return ToolchainError("this nvcc doesn't work", why=why, fix=fix)


def _compare(toolchain: ViewPaths, folder: Path, flags: tuple[str, ...]) -> Canary:
    stop = Stop()
    places = [folder / "-".join((name, *flags)) for name in ("here", "further-away")]
    with ThreadPoolExecutor() as pool:  # its end waits for compilers that run
        tries = [pool.submit(_make_objects, toolchain, at, flags, stop) for at in places]
        try:
            first, second = (one.result() for one in tries)
        finally:
            stop.ask()
    unequal = [name for name in _SOURCES if first[name] != second[name]]
    if not unequal:
        return Canary(flags=flags)
    again = _make_objects(toolchain, places[0], flags, Stop())
    always = tuple(name for name in unequal if again[name] != first[name])
    by_path = tuple(name for name in unequal if name not in always)
    return Canary(flags=flags, by_path=by_path, always=always)


def _make_objects(
    toolchain: ViewPaths, folder: Path, flags: tuple[str, ...], stop: Stop
) -> dict[str, str]:
    """Digests of the objects, by source."""
    tried = _prepare(toolchain, folder, flags)
    digests = {}
    for name in _SOURCES:
        stop.check()
        digests[name] = _compile(tried, name)
    return digests


def _prepare(toolchain: ViewPaths, folder: Path, flags: tuple[str, ...]) -> _Tried:
    view = dataclasses.replace(toolchain, view=folder / "cuda", launcher=folder / "launcher")
    tried = _Tried(folder=folder, view=view)
    if folder.is_dir():
        return tried
    for made in (view.view, view.launcher, folder / "tmp", folder / "source"):
        made.mkdir(parents=True)
    for name, text in _SOURCES.items():
        (folder / "source" / f"{name}.cu").write_text(text)
    make_view(view.view, toolchain.toolkit, view, "canary")
    maps = (
        (str(folder / "source"), "/cuwheel/source"),
        (str(view.view), "/cuwheel/cuda"),
        (str(folder / "tmp"), "/cuwheel/tmp"),
    )
    settings = launcher_settings(view, view, maps=maps, flags=flags)
    make_launcher(view.launcher, view, settings, toolchain.python, "canary")
    return tried


def _compile(tried: _Tried, name: str, variables: Mapping[str, str] | None = None) -> str:
    source = tried.folder / "source" / f"{name}.cu"
    made = tried.folder / f"{name}.o"
    mode = "-dc" if name == "separable" else "-c"
    done = run(
        [tried.view.view / "bin" / "nvcc", mode, source, "-o", made],
        env={
            "PATH": SYSTEM_PATH,
            "TMPDIR": str(tried.folder / "tmp"),
            "SOURCE_DATE_EPOCH": _EPOCH,
            "LC_ALL": "C.UTF-8",
            **(variables or {}),
        },
        cwd=tried.folder,
        log=made.with_suffix(".log"),  # what has one is ended even where we are killed
        check=False,
    )
    if done.status:
        raise _CompileError(done.output.strip() or f"status {done.status}")
    return sha256_of_file(made)
