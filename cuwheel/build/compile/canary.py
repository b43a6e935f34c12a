"""Canary: a test that nvcc, behind the launcher, gives equal objects at two places and times.

Some of the options that the launcher relies on are not documented (`--orig_src_path_name` for
cudafe++), so they are tried for each toolchain and host compiler: CUDA 13.4 may differ from 13.0.
They were found by taking objects of nvcc 13.0 apart: docs/adr/0015.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import ToolchainError
from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.base.system.files import file_lock, sha256_of_file, write_atomically
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.parallel import Stop, result_of
from cuwheel.base.system.process import run
from cuwheel.build.compile import toolkit_view
from cuwheel.build.compile.toolkit_view import (
    DEVICE_TOOLS,
    LAUNCHER_FILES,
    ToolkitView,
    ViewPaths,
)
from cuwheel.build.workspace.serialization import read_record, to_json

_SOURCES = {
    # Names of internal functions hold a hash of the source's path.
    "anonymous": "namespace { __global__ void k(int *p) { *p = 1; } }\n"
    "void f(int *p) { k<<<1, 1>>>(p); }\n",
    # Where a file has no external name, nvcc takes its process id.
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
    """The result of the test.

    Attributes:
        flags: the options for equal bytes that this nvcc has, as `rewrite.Settings` names them.
        by_path: sources whose objects differ between two folders; a fixed path makes them equal.
        always: sources whose objects differ in one folder too.
        device_tools: SHA-256 over the programs that make device code; empty where that of one
            platform can't be reused for another (`build/compile/launcher/device_code.py`).
    """

    flags: tuple[str, ...]
    by_path: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    device_tools: str = ""


class _CompileError(Exception):
    """The compiler's output for a file that doesn't compile with the flags that were tried."""


def run_canary(toolchain: ViewPaths, fingerprint: str, cache: Path) -> Canary:
    """Compile small files at two places and compare; the result is kept in the cache.

    Two of these on one toolchain wait for each other.

    Args:
        toolchain: real paths of toolkit, compilers and Python; its view and launcher aren't used.

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
    with file_lock(folder.with_suffix(".lock")):
        if kept := read_record(record, Canary):
            return kept
        # Not where temporary files go: no program may be allowed to run there.
        with temporary_folder(folder.parent) as scratch:
            canary = _try_all(toolchain, scratch)
        write_atomically(record, to_json(canary))
    return canary


def _try_all(toolchain: ViewPaths, folder: Path) -> Canary:
    nvcc = toolchain.toolkit / "bin" / "nvcc"
    options = run([nvcc, "--help"], env={"PATH": SYSTEM_PATH}).output
    flags = tuple(name for name, option in _FLAGS.items() if option in options)
    try:
        return _compare(toolchain, folder, ("path", *flags))
    except _CompileError:
        try:
            return _compare(toolchain, folder, flags)
        except _CompileError as problem:
            raise _compiles_nothing(str(problem)) from problem


def _shared_tools(toolchain: ViewPaths, folder: Path, flags: tuple[str, ...], stop: Stop) -> str:
    """Return the digest of the device compilers, if their output can be shared; else nothing.

    Three compiles of one file: as usual, one that keeps its device code, one that reuses it.
    """
    digest = _digest_of_device_tools(toolchain.toolkit)
    if not digest or not _FLAGS.keys() <= set(flags):  # else objects differ with each process
        return ""
    place = folder / "-".join(("shared", *flags))
    view = _prepare(toolchain, place, tuple(_FLAGS))
    (place / "source" / "shared.cu").write_text(_SHARED)
    events = place / "events"
    variables = {
        "CUWHEEL_DEVICE_CODE": str(place / "device"),
        "CUWHEEL_DEVICE_TOOLS": digest,
        "CUWHEEL_EVENTS": str(events),
    }
    try:
        objects = {_compile(view, "shared")}
        for platform in ("first", "second"):
            stop.check()
            objects.add(_compile(view, "shared", {**variables, "CUWHEEL_PLATFORM": platform}))
    except _CompileError:
        return ""
    reused = events.read_text().count('"kind": "shared"') if events.exists() else 0
    return digest if len(objects) == 1 and reused == len(DEVICE_TOOLS) else ""


def _digest_of_device_tools(toolkit: Path) -> str:
    """Return SHA-256 over all that compiles preprocessed device code; empty if incomplete."""
    tops = (toolkit, toolkit / _TARGET)
    paths = [
        next((top / name for top in tops if (top / name).exists()), None) for name in _DEVICE_FILES
    ]
    digests = [sha256_of_file(path) for path in paths if path]
    if len(digests) != len(_DEVICE_FILES):
        return ""
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _compiles_nothing(output: str) -> ToolchainError:
    """Return the error, with the cause where the compiler's output shows a known one."""
    from cuwheel.check.explain.explanation import Explainer  # noqa: PLC0415 - only where it failed

    causes = Explainer().explain(io.BytesIO(output.encode())).causes
    why, fix = output, "check that the host compiler works and that this nvcc supports it"
    if causes:
        cause = causes[0]
        why, fix = f"{cause.why}\n{cause.evidence[0].text}", f"{cause.fix}\nmore: {cause.anchor}"
    return ToolchainError("this nvcc doesn't work", why=why, fix=fix)


def _compare(toolchain: ViewPaths, folder: Path, flags: tuple[str, ...]) -> Canary:
    stop = Stop()
    places = [folder / "-".join((name, *flags)) for name in ("here", "further-away")]
    with ThreadPoolExecutor() as pool:  # its end waits for compilers that run
        try:
            tools = pool.submit(_shared_tools, toolchain, folder, flags, stop)
            trials = [pool.submit(_make_objects, toolchain, place, flags, stop) for place in places]
            first, second = (result_of(trial) for trial in trials)
            device_tools = result_of(tools)
        finally:
            stop.request()
    unequal = [name for name in _SOURCES if first[name] != second[name]]
    if not unequal:
        return Canary(flags=flags, device_tools=device_tools)
    again = _make_objects(toolchain, places[0], flags, Stop())
    always = tuple(name for name in unequal if again[name] != first[name])
    by_path = tuple(name for name in unequal if name not in always)
    return Canary(flags=flags, by_path=by_path, always=always, device_tools=device_tools)


def _make_objects(
    toolchain: ViewPaths, folder: Path, flags: tuple[str, ...], stop: Stop
) -> dict[str, str]:
    """Compile all sources; return the digests of the objects, by source."""
    view = _prepare(toolchain, folder, flags)
    digests = {}
    for name in _SOURCES:
        stop.check()
        digests[name] = _compile(view, name)
    return digests


def _prepare(toolchain: ViewPaths, folder: Path, flags: tuple[str, ...]) -> ViewPaths:
    """Fill a folder with sources and a view of its own, where it doesn't exist yet."""
    view = dataclasses.replace(toolchain, view=folder / "cuda", launcher=folder / "launcher")
    if folder.is_dir():
        return view
    for path in (view.view, view.launcher, folder / "tmp", folder / "source"):
        path.mkdir(parents=True)
    for name, text in _SOURCES.items():
        (folder / "source" / f"{name}.cu").write_text(text)
    made = ToolkitView(real=view, inside=view, fingerprint="canary")
    made.make()
    maps = (
        (str(folder / "source"), "/cuwheel/source"),
        (str(view.view), "/cuwheel/check/cuda"),
        (str(folder / "tmp"), "/cuwheel/tmp"),
    )
    made.make_launcher(made.settings(maps=maps, flags=flags))
    return view


def _compile(view: ViewPaths, name: str, variables: Mapping[str, str] | None = None) -> str:
    folder = view.view.parent
    output = folder / f"{name}.o"
    mode = "-dc" if name == "separable" else "-c"
    done = run(
        [view.view / "bin" / "nvcc", mode, folder / "source" / f"{name}.cu", "-o", output],
        env={
            "PATH": SYSTEM_PATH,
            "TMPDIR": str(folder / "tmp"),
            "SOURCE_DATE_EPOCH": _EPOCH,
            "LC_ALL": "C.UTF-8",
            **(variables or {}),
        },
        cwd=folder,
        log=output.with_suffix(".log"),  # a command with a log ends even where we are killed
        check=False,
    )
    if done.status:
        raise _CompileError(done.output.strip() or f"status {done.status}")
    return sha256_of_file(output)
