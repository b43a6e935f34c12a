"""Builds of one target under varied conditions that must not matter."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cuwheel.base.caller import Caller
from cuwheel.base.errors import BuildFailedError, CommandFailedError
from cuwheel.base.paths import ROOT
from cuwheel.base.spelling import AS_MODULE
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.folders.output_folder import make_empty
from cuwheel.base.system.machine import usable_cores
from cuwheel.base.system.process import run
from cuwheel.base.system.quantities import plural
from cuwheel.build.compile.cache.compile_cache import FOLDER_VARIABLE
from cuwheel.build.compile.cache.remote import REMOTE_VARIABLE
from cuwheel.build.pipeline.summary import summary_in
from cuwheel.build.sandbox.backends import choose_sandbox, refusals, working_kinds
from cuwheel.build.workspace.workspace import SCRATCH_FOLDER

# Of the cache these may be shared: packages as they were downloaded, by their hashes.
_DOWNLOADS = ("downloads", "uv", "conda", "pythons")


@dataclass(frozen=True, kw_only=True)
class Variation:
    """One way to run a build.

    Attributes:
        caller: gives the build its variables, in addition to `variables`.
        sandbox: `--sandbox`.
    """

    name: str
    description: str
    work: Path
    dist: Path
    caller: Caller
    sandbox: str = "auto"
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    umask: int = 0o022
    root: Path = ROOT


@dataclass(frozen=True, kw_only=True)
class BuiltAgain:
    """One build.

    Attributes:
        name: of the variation.
        varied: what it varied, in words.
        wheel: the file.
        sha256: of the wheel.
        seconds: that the build took.
        cache: what the compile cache did, in words; empty where there was none.
    """

    name: str
    varied: str
    wheel: Path
    sha256: str
    seconds: float
    cache: str


def _choose_sandboxes(request: str) -> tuple[str, str, str]:
    """Return the sandbox of the usual build, that of the other one, and how they differ."""
    if request == "none":
        usual = next(iter(working_kinds()), "none")
        return usual, "none", "no sandbox, as requested"
    usual = choose_sandbox(request)
    other = usual if request != "auto" else working_kinds()[-1]
    if other != usual:
        return usual, other, f"the sandbox {other} in place of {usual}"
    lacking = "; ".join(f"{kind}: {why}" for kind, why in refusals().items())
    return usual, usual, f"the same sandbox, {usual} ({lacking or 'as requested'})"


def variations(folder: Path, caller: Caller, sandbox: str = "auto") -> tuple[Variation, ...]:
    """Return a usual build, one with everything different, and one from the compile cache.

    Args:
        folder: of all builds; leftovers of an earlier verification are removed.
        caller: of its cache only downloads are shared with the second.
        sandbox: `--sandbox`. With `auto` both kinds are used, and only `none` leaves one build
            without.

    Raises:
        SandboxError: the requested one doesn't work here, or with `auto` none; nothing is removed.
    """
    usual, varied, difference = _choose_sandboxes(sandbox)
    make_empty(folder, SCRATCH_FOLDER)
    compiles, other = folder / "compiles", folder / "some" / "where" / "else"
    # A remote cache would be neither empty nor the one that the first build filled.
    own_cache = {FOLDER_VARIABLE: str(compiles), REMOTE_VARIABLE: ""}
    cores = usable_cores(caller.environ)
    jobs = 1 if cores > 1 else 2
    place = "no sandbox" if usual == "none" else f"the sandbox {usual}"
    return (
        Variation(
            name="usual",
            caller=caller,
            description=f"the usual way, in {place}; the compile cache is empty",
            work=folder / "usual" / "work",
            dist=folder / "usual" / "dist",
            sandbox=usual,
            variables=own_cache,
        ),
        Variation(
            name="other",
            caller=caller,
            description=f"other folders and caches, {difference}, no compile cache, "
            f"{plural(jobs, 'job')}, other umask, locale, time zone, TMPDIR",
            work=other / "work",
            dist=other / "dist",
            sandbox=varied,
            options=("--no-cache", "--jobs", str(jobs)),
            variables={
                "CUWHEEL_CACHE": str(_cache_with_downloads(other / "cache", caller.cache)),
                "LC_ALL": "C",
                "LANG": "tr_TR.UTF-8",
                "TZ": "Pacific/Chatham",
                "TMPDIR": str(_made(other / "tmp")),
                "HOME": str(_made(other / "home")),
            },
            umask=0o077,
        ),
        Variation(
            name="warm",
            caller=caller,
            description=f"from the compile cache that the first has filled, {2 * cores} jobs",
            work=folder / "warm" / "and" / "deeper" / "work",
            dist=folder / "warm" / "dist",
            sandbox=usual,
            options=("--jobs", str(2 * cores)),
            variables=own_cache,
        ),
    )


def rebuild(command: Sequence[str], how: Variation, console: Console) -> BuiltAgain:
    """Build once, in a process of its own; a BuildFailedError names its log."""
    log = how.work.with_name("build.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    folders = ("--work", str(how.work), "--dist", str(how.dist))
    options = ("--sandbox", how.sandbox, *how.options)
    argv = [*_cuwheel_of(how.root), "build", *command, *options, *folders]
    started = time.monotonic()
    with console.live(how.name) as line:
        try:
            run(
                ["/bin/sh", "-c", f'umask {how.umask:03o}; exec "$0" "$@"', *argv],
                env={**how.caller.environ, "PYTHONPATH": str(how.root), **how.variables},
                cwd=how.caller.project if how.root == ROOT else how.root,
                log=log,
                shown=argv,
                on_line=lambda text, _: line.show(text.strip()) if text.strip() else None,
            )
        except CommandFailedError as error:
            raise BuildFailedError(
                f"the {how.name} build of the verification failed",
                command=error.command,
                status=error.status,
                log=error.log,
                tail=error.tail,
                fix="the last lines show why; build it without verification first",
            ) from error
    summary = summary_in(how.dist)
    wheel = how.dist / summary["wheel"]
    return BuiltAgain(
        name=how.name,
        varied=how.description,
        wheel=wheel,
        sha256=sha256_of_file(wheel),
        seconds=time.monotonic() - started,
        cache=summary["cache"],
    )


def _cuwheel_of(root: Path) -> list[str]:
    """Return the command of a checkout's cuwheel, in the environment that its lock names."""
    lock = Path("envs", "engine.lock")
    if sha256_of_file(root / lock) == sha256_of_file(ROOT / lock):
        return [sys.executable, *AS_MODULE]
    bare = "-P" if sys.version_info >= (3, 11) else "-s"  # as noxfile.py does
    return [sys.executable, bare, "-m", "cuwheel.bootstrap", "engine", "-m", "cuwheel"]


def _cache_with_downloads(folder: Path, shared: Path) -> Path:
    _made(folder)
    for name in _DOWNLOADS:
        _made(shared / name)
        (folder / name).symlink_to(shared / name)
    return folder


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
