"""The same target built again and again, with everything varied that must not matter."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.build.compile_cache.choice import FOLDER_VARIABLE
from cuwheel.build.compile_cache.remote import REMOTE_VARIABLE
from cuwheel.build.summary import summary_in
from cuwheel.errors import CommandFailedError, RebuildFailedError
from cuwheel.paths import ROOT, project_folder
from cuwheel.system.files import remove_tree, sha256_of_file
from cuwheel.system.machine import usable_cores
from cuwheel.system.process import run
from cuwheel.system.quantities import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cuwheel.system.console import Console


# Of the cache these may be shared: packages as they were downloaded, by their hashes.
_DOWNLOADS = ("downloads", "uv", "conda", "pythons")


@dataclass(frozen=True, kw_only=True)
class Variation:
    """One way to run a build.

    Attributes:
        name: names its folder.
        says: what is different in it, for a person.
        work: its work folder.
        dist: where its wheel goes.
        options: of the command line, beside the requested ones.
        variables: of its environment, beside the caller's.
        umask: of its process.
        root: of the checkout whose cuwheel builds.
    """

    name: str
    says: str
    work: Path
    dist: Path
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    umask: int = 0o022
    root: Path = ROOT


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """A wheel that one of them made.

    Attributes:
        variation: how.
        wheel: the file.
        sha256: of it.
        seconds: that the whole run took.
        cache: what the compile cache did, in words.
    """

    variation: Variation
    wheel: Path
    sha256: str
    seconds: float
    cache: str


def variations(folder: Path, cache: Path) -> tuple[Variation, ...]:
    """A usual build, one with everything different, and one from the compile cache.

    Args:
        folder: everything of theirs goes there; what an earlier verification left is removed.
        cache: cuwheel's own, of which only downloads are shared with the second.
    """
    remove_tree(folder)
    compiles, other = folder / "compiles", folder / "some" / "where" / "else"
    # What others have stored would be neither an empty cache nor the one that the first has filled.
    own_cache = {FOLDER_VARIABLE: str(compiles), REMOTE_VARIABLE: ""}
    cores = usable_cores()
    jobs = 1 if cores > 1 else 2
    return (
        Variation(
            name="usual",
            says="the usual way; the compile cache is empty",
            work=folder / "usual" / "work",
            dist=folder / "usual" / "dist",
            variables=own_cache,
        ),
        Variation(
            name="other",
            says=f"other folders and caches, no sandbox, no compile cache, "
            f"{plural(jobs, 'job')}, other umask, locale, time zone, TMPDIR",
            work=other / "work",
            dist=other / "dist",
            options=("--sandbox", "none", "--no-cache", "--jobs", str(jobs)),
            variables={
                "CUWHEEL_CACHE": str(_cache_with_downloads(other / "cache", cache)),
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
            says=f"from the compile cache that the first has filled, {2 * cores} jobs",
            work=folder / "warm" / "and" / "deeper" / "work",
            dist=folder / "warm" / "dist",
            options=("--jobs", str(2 * cores)),
            variables=own_cache,
        ),
    )


def rebuild(command: Sequence[str], how: Variation, console: Console) -> Rebuilt:
    """Build once, in a process of its own.

    Args:
        command: target and options of the `build` command.
        how: the variation.
        console: shows how it goes.

    Raises:
        RebuildFailedError: it failed; its log is named.
    """
    log = how.work.with_name("build.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    folders = ("--work", str(how.work), "--dist", str(how.dist))
    words = [*_cuwheel_of(how.root), "build", *command, *how.options, *folders]
    started = time.monotonic()
    with console.live(how.name) as line:
        try:
            run(
                ["/bin/sh", "-c", f'umask {how.umask:03o}; exec "$0" "$@"', *words],
                env={**os.environ, "PYTHONPATH": str(how.root), **how.variables},
                cwd=project_folder() if how.root == ROOT else how.root,
                log=log,
                shown=words,
                on_line=lambda text, _: line.show(text.strip()) if text.strip() else None,
            )
        except CommandFailedError as error:
            raise RebuildFailedError(
                f"the {how.name} build of the verification failed",
                command=error.command,
                status=error.status,
                log=error.log,
                tail=error.tail,
                fix="the last lines show why; build it without verification first",
            ) from error
    summary = summary_in(how.dist)
    wheel = how.dist / summary["wheel"]
    return Rebuilt(
        variation=how,
        wheel=wheel,
        sha256=sha256_of_file(wheel),
        seconds=time.monotonic() - started,
        cache=summary["cache"],
    )


def _cuwheel_of(root: Path) -> list[str]:
    """What runs the cuwheel of a checkout, in the environment that its lock names."""
    lock = Path("envs", "engine.lock")
    if sha256_of_file(root / lock) == sha256_of_file(ROOT / lock):
        return [sys.executable, "-m", "cuwheel"]
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
