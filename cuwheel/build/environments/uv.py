"""uv: environments, installations with hashes, lock files.

Why uv: docs/adr/0010. It gets the user's settings of `uv_settings` (`UV_DEFAULT_INDEX`,
`~/.config/uv/uv.toml`, …), and pip's only for a user's environment.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.errors import InstallError
from cuwheel.base.fetch.indexes.cuda_lines import with_hashes, with_lines
from cuwheel.base.fetch.indexes.uv_settings import uv_variables
from cuwheel.base.fetch.retry import SLOW_FIX, ProgramWatch, slow_factor
from cuwheel.base.fetch.urls import configured_mirror
from cuwheel.base.system.files import disk_full, has_disk_full_message
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.parallel import Stop
from cuwheel.base.system.process import run, which
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.environments.lock_file import check_pins
from cuwheel.build.workspace.workspace import Workspace

# Only wheels: a build from a source distribution would run that package's code. Hard links are uv's
# default; they are explicit, as with the symbolic links of a user's uv.toml a library would be
# loaded from the cache.
_SAFE_OPTIONS = ("--require-hashes", "--only-binary", ":all:", "--link-mode", "hardlink")
OWN_PYTHON = ("--no-python-downloads", "--python")

# Wheels of any older C library fit too; this is the newest that uv has a name for.
_NEWEST_GLIBC = "manylinux_2_40"

_READ_TIMEOUT = 20.0  # seconds between two pieces of a response, unless the user sets another
_PROGRESS = ("Resolved", "Downloading", "Prepared", "Installed")
_FULL = re.compile(r".*(?: to | file )`?(/[^`:]+)`?: No space left on device")
_REASON = re.compile(r"(error|cause|hint): +(.*)")
_UNLOCKED = r"no trusted hash was provided|must have a hash|must have their versions pinned"
# Patterns of uv's output, and how to fix what they mean.
_UNREACHABLE = r"Failed to fetch|error sending request|Failed to download"
_NO_WHEEL = (
    r"does not satisfy Python|no usable wheels|no wheels with a (matching|free-threading)"
    r"|requires Python"
)
_FIXES = {
    r"Failed to fetch.*/whl/cu\d+/": (
        "check that this index of a CUDA line can be reached, or name a copy of it with "
        "CUWHEEL_TORCH_INDEX"
    ),
    r"Hash mismatch": (
        "a file on the index differs from the locked one: find out why; only then write the "
        "lock again with `nox -s lock`"
    ),
    _UNLOCKED: (
        "a required package isn't in the lock: add it to the lock's input, then `nox -s lock`"
    ),
    r"No interpreter found|Python interpreter": (
        "choose a working Python on this machine: `-- --python PATH`"
    ),
    r"Permission denied|Read-only file system": (
        "check the folder's owner and permissions; CUWHEEL_CACHE names another cache"
    ),
    r"Couldn't parse requirement": "correct that requirement: `name` or `name==version`",
    r"network (was|is) disabled": "run once without --offline, which fills the cache",
    _NO_WHEEL: (
        "it has no wheel for this Python or machine: use a Python that the lock was made for "
        "(`-- --python 3.12`)"
    ),
    _UNREACHABLE: (
        "check that the package index can be reached; uv's settings apply (UV_DEFAULT_INDEX, "
        "HTTPS_PROXY, SSL_CERT_FILE, ~/.config/uv/uv.toml), pip's don't; without internet see "
        "docs/how-to/offline.md"
    ),
    r"not found in the provided package locations|indexes were not|--find-links": (
        "the mirror that CUWHEEL_MIRROR names doesn't have it: on a machine with a network, "
        "`nox -s mirror -- TARGET --to` the same folder adds what a target needs (with "
        "--python for each Python)"
    ),
    r"there (is|are) no versions? of|was not found|only .* available": (
        "the index doesn't have it: the name is wrong, a mirror is incomplete, or the release "
        "was withdrawn or is younger than the cooldown; UV_DEFAULT_INDEX names another index, "
        "`nox -s lock` writes a lock again"
    ),
}
_WITH_PIPS_FIXES = {  # of a user's environment, which no lock is for
    _UNREACHABLE: (
        "check that the package indexes can be reached; the settings of uv and pip apply "
        "(UV_DEFAULT_INDEX, PIP_INDEX_URL, HTTPS_PROXY, SSL_CERT_FILE); without internet see "
        "docs/how-to/offline.md"
    ),
    _NO_WHEEL: (
        "no index has a wheel of it for this Python and machine, and only wheels are installed: "
        "use another Python, or build that wheel first (`nox -s install` does with --fallback "
        "build)"
    ),
}
_RESOLVER_FIXES = {
    r"has no usable wheels": (
        "the index has only its source, or wheels for other systems, and a lock holds wheels: "
        "require a release that has one, or let a patch of the source do without it"
    ),
    r"(?s)^(?!.*there (is|are) no versions? of).*your requirements are unsatisfiable": (
        "these requirements exclude each other: change one of them in the lock's input"
    ),
}


def make_environment(folder: Path, python: Path, workspace: Workspace, *, log: Path) -> None:
    """Make an empty environment, without pip, from a Python that is on this machine.

    Its scripts find the interpreter relative to themselves, as a build may see another path.

    Args:
        folder: of the environment; must not exist.
        python: the interpreter; none is ever downloaded.

    Raises:
        InstallError: it can't be made.
        DiskFullError: a disk ran full.
    """
    kind = ("--no-project", "--relocatable")
    argv = ("venv", *OWN_PYTHON, python.absolute(), *kind, folder.absolute())
    what = f"no environment can be made with {python}"
    run_uv(argv, cache=workspace.cache, environ=workspace.environ, log=log, what=what)


def install(  # noqa: PLR0913 - source, destination and report
    python: Path,
    lock: Path,
    workspace: Workspace,
    *,
    offline: bool,
    log: Path,
    into: Path | None = None,
    machine: str = "",
    only: Path | None = None,
    unlocked_fix: str = "",
    stop: Stop | None = None,
) -> None:
    """Install locked packages, each with its hash and as a wheel.

    Args:
        python: of the environment that gets them, or that they are chosen for.
        into: a folder in place of the environment.
        machine: another kind of machine, `aarch64`, for a folder; empty: this one's.
        only: requirements that the lock pins, or with hashes; they and what they need of the lock
            are installed in place of all of the lock, and an environment loses anything else.
        unlocked_fix: for an error about a package that isn't in the lock.
        stop: for an installation next to other work, which then takes one core: ends it within a
            second or so of the request.

    Raises:
        LockError: the lock holds more than packages with their hashes.
        InstallError: no network, a wrong hash, something that isn't locked or not in the cache, no
            wheel for this Python.
        DiskFullError: a disk ran full.
        StoppedError: `stop` was requested.
    """
    check_pins(lock)
    lines, environ = with_lines(read_text(lock, limit=limits.LOCK), workspace.environ)
    if configured_mirror(environ, offline=offline):  # it has all of the lock
        lines = ()
    place = ("--target", into.absolute()) if into else ("--exact",) if only else ()
    foreign = ("--python-platform", f"{machine}-{_NEWEST_GLIBC}") if machine else ()
    files = ("-r", only.absolute(), "-c", lock.absolute()) if only else ("-r", lock.absolute())
    with workspace.console.live("installing") as line:
        run_uv(
            (*_pip_install(python, environ, offline=offline), *lines, *place, *foreign, *files),
            cache=workspace.cache,
            environ=environ,
            log=log,
            what=f"the packages of {(only or lock).name} could not be installed",
            show=line.show,
            fixes=_FIXES | ({_UNLOCKED: unlocked_fix} if unlocked_fix else {}),
            stop=stop,
        )
    if into:
        (into / ".lock").unlink(missing_ok=True)  # uv's own, and writable for everyone


def unpack_into(  # noqa: PLR0913 - source, destination and report
    folder: Path, wheel: Path, sha256: str, workspace: Workspace, *, python: Path, log: Path
) -> None:
    """Install one wheel, and nothing that it requires, into a folder.

    Raises:
        InstallError: it is damaged, or for another Python or system.
        DiskFullError: a disk ran full.
    """
    project = wheel.name.partition("-")[0]
    with temporary_folder() as inputs:
        requirement = inputs / f"{project}.txt"
        uri = wheel.absolute().as_uri()
        requirement.write_text(f"{project} @ {uri} --hash=sha256:{sha256}\n", encoding="utf-8")
        options = ("--no-deps", "--target", folder.absolute(), "-r", requirement)
        argv = (*_pip_install(python, workspace.environ, offline=True), *options)
        what = f"{wheel.name} could not be unpacked for {python}"
        run_uv(argv, cache=workspace.cache, environ=workspace.environ, log=log, what=what)


def forget(names: Iterable[str], workspace: Workspace) -> None:
    """Remove packages from uv's cache, so that the next installation downloads them again.

    Raises:
        InstallError: the cache can't be changed.
    """
    what = "the installer's cache could not be cleaned"
    argv = ("cache", "clean", *names)
    run_uv(argv, cache=workspace.cache, environ=workspace.environ, what=what)


def resolve(source: Path, workspace: Workspace, *, python: str, uploaded_before: str) -> str:
    """Resolve requirements for all platforms and Pythons, and pin them with hashes.

    Args:
        source: requirements, `name` or `name==version` a line.
        python: the oldest Python to serve, `3.10`.
        uploaded_before: releases uploaded later are ignored, ISO 8601.

    Returns:
        Lines in pip's requirements format; neither the index nor a path of this machine is named.

    Raises:
        InstallError: the index can't be reached, or nothing satisfies the requirements.
        DiskFullError: a disk ran full.
    """
    scope = ("--universal", "--python-version", python, "--exclude-newer", uploaded_before)
    form = ("--generate-hashes", "--no-annotate", "--no-header", "--no-emit-index-url")
    start = ("pip", "compile", *OWN_PYTHON, sys.executable)
    with temporary_folder() as folder:
        lock = folder / "lock"
        files = ("--no-emit-find-links", "--output-file", str(lock), str(source.absolute()))
        lines, environ = with_lines(read_text(source), workspace.environ)
        argv = (*start, *scope, *form, *lines, "--only-binary", ":all:", *files)
        what = f"{source.name} could not be resolved"
        fixes = _RESOLVER_FIXES | _FIXES
        run_uv(argv, cache=workspace.cache, environ=environ, what=what, fixes=fixes)
        return with_hashes(read_text(lock), environ)


def _pip_install(
    python: Path, environ: Mapping[str, str], *, offline: bool
) -> tuple[str | Path, ...]:
    # With a mirror everything comes from it, whatever indexes are configured. Its address is in a
    # variable: every user can read a program's arguments, and it may hold a password.
    origin = ("--no-index",) if configured_mirror(environ, offline=offline) else ()
    network = ("--offline",) if offline else ()
    return ("pip", "install", *_SAFE_OPTIONS, *network, *origin, *OWN_PYTHON, python.absolute())


def run_uv(  # noqa: PLR0913 - what to run, and what to do with its output
    argv: Sequence[str | Path],
    *,
    cache: Path,
    environ: Mapping[str, str],
    what: str,
    log: Path | None = None,
    show: Callable[[str], None] = lambda _: None,
    fixes: Mapping[str, str] = _FIXES,
    stop: Stop | None = None,
    with_pips: bool = False,
) -> list[str]:
    """Run uv out of reach of any project's settings, and turn its failure into an error.

    Args:
        what: the fact that an error states.
        show: gets lines of progress.
        fixes: for patterns of uv's output.
        stop: ends it on request; it runs next to other work, which has the other cores.
        environ: has `PATH` and the user's settings.
        with_pips: pip's settings among them count too.

    Returns:
        The lines of its output.
    """
    lines: list[str] = []

    def note_line(line: str, _: int) -> None:
        if line:  # an empty one is only the runner's sign of life
            lines.append(line)
        if line.strip().startswith(_PROGRESS):
            show(line.strip())

    env = {"UV_CACHE_DIR": str(cache.absolute() / "uv"), "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    if "--no-index" in argv:
        mirror = configured_mirror(environ, offline="--offline" in argv)
        env["UV_FIND_LINKS"] = mirror.wheels.replace(",", "%2C") if mirror else ""
    if stop:
        env["UV_CONCURRENT_INSTALLS"] = "1"
    factor = slow_factor()
    with temporary_folder() as folder:
        settings = uv_variables(environ, folder, with_pips=with_pips)
        settings.setdefault("UV_HTTP_TIMEOUT", str(max(1, round(_READ_TIMEOUT * factor))))
        watch = ProgramWatch(factor)
        stop = stop or Stop()
        process = run(
            [_find_uv(environ), *argv],
            env={**settings, **env},
            cwd=Path(os.sep),
            log=log,
            on_line=note_line,
            gives_up=lambda pid: stop.is_requested() or watch.is_stalled(pid),
            check=False,
        )
    stop.check()
    whole = f"; its whole output is in {log}" if log else ""
    if watch.fault:
        raise InstallError(what, why=f"uv was terminated: {watch.fault}", fix=SLOW_FIX + whole)
    if process.status and has_disk_full_message(lines):
        file = _FULL.search("\n".join(lines))
        raise disk_full(Path(file[1]).parent if file else cache)
    if process.status:
        if with_pips:
            fixes = {**fixes, **_WITH_PIPS_FIXES}
        matching = (fix for pattern, fix in fixes.items() if re.search(pattern, "\n".join(lines)))
        fix = next(matching, "correct what uv names")
        raise InstallError(what, why=f"uv says: {_error_lines(lines)}", fix=fix + whole)
    return lines


def is_unreachable(error: InstallError) -> bool:
    """Return True if uv failed since it couldn't read an index or a file of it."""
    return bool(re.search(_UNREACHABLE, error.why))


def _find_uv(environ: Mapping[str, str]) -> str:
    """Return the program of the engine's own environment, else the one on PATH."""
    folder = Path(sys.executable).parent
    program = which("uv", os.pathsep.join((str(folder), environ.get("PATH", os.defpath))))
    if program is None:
        raise InstallError(
            "the program uv is missing",
            why=f"it is neither in {folder} nor on PATH",
            fix="start it by nox or as `cuwheel`, which install it from envs/engine.lock",
        )
    return program


def _error_lines(lines: list[str]) -> str:
    """Return the error and its causes on one line, without hints; else the last line."""
    matches = filter(None, (_REASON.fullmatch(line.strip()) for line in lines))
    reasons = [match[2] for match in matches if match[1] != "hint"]
    last = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
    return ": ".join(dict.fromkeys(reasons)) or last
