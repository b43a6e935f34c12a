"""The one place that calls uv: environments, installations with hashes, lock files.

Why uv: docs/adr/0010. It reads its own settings (`UV_DEFAULT_INDEX`, `~/.config/uv/uv.toml`, …),
not pip's.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import CuwheelError, InstallError
from cuwheel.fetch.mirror import configured_mirror
from cuwheel.fetch.slow import SLOW_FIX, ProgramWatch, slow_factor
from cuwheel.pypi.lock_file import check_pins
from cuwheel.system.files import disk_full, says_disk_full
from cuwheel.system.parallel import Stop
from cuwheel.system.process import run, which
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cuwheel.system.console import Console


# What of the caller's environment uv gets to see: which index, how to reach it, who we are there.
# PATH is for `keyring`; uv looks for nothing else there, as its Python is always named.
# Names from uv's documentation, "Environment variables".
_PASSED = re.compile(
    r"HOME|PATH|XDG_CONFIG_HOME|XDG_CONFIG_DIRS|NETRC|TMPDIR"
    r"|UV_((DEFAULT|EXTRA)_)?INDEX(_\w+)?|UV_FIND_LINKS|UV_KEYRING_PROVIDER|UV_INSECURE_HOST"
    r"|UV_NATIVE_TLS|UV_SYSTEM_CERTS|UV_CONFIG_FILE|UV_HTTP_\w+|UV_CONCURRENT_DOWNLOADS"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|SSL_CLIENT_CERT|(?i:(HTTP|HTTPS|ALL|NO)_PROXY)"
)

# Only wheels: making one from a source distribution would run that package's code. Hard links are
# uv's default here; said aloud, as with the symbolic links that a uv.toml can ask for a library
# would be loaded from the cache.
_SAFE_OPTIONS = ("--require-hashes", "--only-binary", ":all:", "--link-mode", "hardlink")
_OWN_PYTHON = ("--no-python-downloads", "--python")

# Wheels of any older C library fit too; this is the newest that uv has a name for.
_NEWEST_GLIBC = "manylinux_2_40"

_READ_TIMEOUT = 20.0  # seconds between two pieces of an answer, where the person sets nothing
_PROGRESS = ("Resolved", "Downloading", "Prepared", "Installed")
_FULL = re.compile(r".*(?: to | file )`?(/[^`:]+)`?: No space left on device")
_REASON = re.compile(r"(error|cause|hint): +(.*)")


@dataclass(frozen=True, kw_only=True)
class _Fix:
    """What uv says (a pattern), and what to do then."""

    says: str
    do: str


_UNLOCKED = r"no trusted hash was provided|must have a hash|must have their versions pinned"
_FIXES = (
    _Fix(
        says=r"Hash mismatch",
        do="a file on the index differs from the locked one: find out why; only then write the "
        "lock again with `nox -s lock`",
    ),
    _Fix(
        says=_UNLOCKED,
        do="a required package isn't in the lock: add it to the lock's input, then `nox -s lock`",
    ),
    _Fix(
        says=r"No interpreter found|Python interpreter",
        do="choose a working Python on this machine: `-- --python PATH`",
    ),
    _Fix(
        says=r"Permission denied|Read-only file system",
        do="check the folder's owner and permissions; CUWHEEL_CACHE names another cache",
    ),
    _Fix(
        says=r"Couldn't parse requirement",
        do="correct that requirement: `name` or `name==version`",
    ),
    _Fix(says=r"network (was|is) disabled", do="run once without --offline, which fills the cache"),
    _Fix(
        says=r"does not satisfy Python|no usable wheels|no wheels with a (matching|free-threading)"
        r"|requires Python",
        do="it has no wheel for this Python or machine: use a Python that the lock was made for "
        "(`-- --python 3.12`)",
    ),
    _Fix(
        says=r"Failed to fetch|error sending request|Failed to download",
        do="check that the package index can be reached; uv's settings apply (UV_DEFAULT_INDEX, "
        "HTTPS_PROXY, SSL_CERT_FILE, ~/.config/uv/uv.toml), pip's don't; without internet see "
        "docs/how-to/offline.md",
    ),
    _Fix(
        says=r"not found in the provided package locations|indexes were not|--find-links",
        do="the mirror that CUWHEEL_MIRROR names doesn't have it: on a machine with a network, "
        "`nox -s mirror -- TARGET --to` the same folder adds what a target needs (with --python "
        "for each Python)",
    ),
    _Fix(
        says=r"there (is|are) no versions? of|was not found|only .* available",
        do="the index doesn't have it: the name is wrong, a mirror is incomplete, or the release "
        "was withdrawn or is younger than the cooldown; UV_DEFAULT_INDEX names another index, "
        "`nox -s lock` writes a lock again",
    ),
)


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One run of uv: arguments, cache, log, what shows it, what a failure says, what ends it."""

    words: Sequence[str | Path]
    cache: Path
    what: str
    log: Path | None = None
    show: Callable[[str], None] = lambda _: None
    fixes: tuple[_Fix, ...] = _FIXES
    stop: Stop | None = None


def make_environment(folder: Path, python: Path, *, cache: Path, log: Path) -> None:
    """Make an empty environment, without pip, from a Python that is on this machine.

    Its scripts find its interpreter beside themselves: a build may see it under another path.

    Args:
        folder: of the environment; must not be there.
        python: the interpreter; none is ever downloaded.
        cache: cuwheel's cache.
        log: gets what uv says.

    Raises:
        InstallError: it can't be made.
        DiskFullError: a disk ran full.
    """
    kind = ("--no-project", "--relocatable")
    words = ("venv", *_OWN_PYTHON, python.absolute(), *kind, folder.absolute())
    what = f"no environment can be made with {python}"
    _run_uv(_Call(words=words, cache=cache, log=log, what=what))


def install(  # noqa: PLR0913 - what, where, and how it is reported
    python: Path,
    lock: Path,
    *,
    cache: Path,
    offline: bool,
    log: Path,
    console: Console,
    only: Path | None = None,
    unlocked_fix: str = "",
    stop: Stop | None = None,
) -> None:
    """Install locked packages into an environment, each with its hash and as a wheel.

    Args:
        python: of the environment.
        lock: requirements with hashes.
        cache: cuwheel's cache.
        offline: take everything from the cache.
        log: gets what uv says.
        console: shows a line while it runs.
        only: requirements that the lock pins, or with hashes; they and what they need of the lock
            are installed in place of all of the lock, and anything else is removed.
        unlocked_fix: what to do when something is needed that isn't in the lock.
        stop: for an installation beside other work, which then takes one core: ends it within a
            second or so once it asks for that.

    Raises:
        LockError: the lock holds more than packages with their hashes.
        InstallError: no network, a wrong hash, something that isn't locked or not in the cache, no
            wheel for this Python.
        DiskFullError: a disk ran full.
        StoppedError: `stop` asked for the end.
    """
    check_pins(lock)
    exact = ("--exact",) if only else ()
    words = (*_pip_install(python, offline=offline), *exact, *_inputs(lock, only))
    title = f"the packages of {(only or lock).name}"
    fixes = _fixes(unlocked_fix)
    call = _Call(words=words, cache=cache, log=log, what=title, fixes=fixes, stop=stop)
    _install(call, console)


def install_into(  # noqa: PLR0913 - what, where, and how it is reported
    folder: Path,
    lock: Path,
    *,
    python: Path,
    cache: Path,
    offline: bool,
    log: Path,
    console: Console,
    machine: str = "",
    only: Path | None = None,
    unlocked_fix: str = "",
) -> None:
    """Install locked packages into a folder, as `install` does.

    Args:
        folder: gets the packages at its top, as site-packages would.
        lock: requirements with hashes.
        python: whose wheels to take.
        cache: cuwheel's cache.
        offline: take everything from the cache.
        log: gets what uv says.
        console: shows a line while it runs.
        machine: for another kind of machine, `aarch64`; empty: this one's.
        only: as for `install`.
        unlocked_fix: likewise.

    Raises:
        LockError: as `install`.
        InstallError: as `install`.
        DiskFullError: a disk ran full.
    """
    check_pins(lock)
    words = _pip_install(python, offline=offline)
    foreign = ("--python-platform", f"{machine}-{_NEWEST_GLIBC}") if machine else ()
    where = ("--target", folder.absolute(), *foreign, *_inputs(lock, only))
    title = f"the packages of {(only or lock).name}"
    fixes = _fixes(unlocked_fix)
    call = _Call(words=(*words, *where), cache=cache, log=log, what=title, fixes=fixes)
    _install(call, console)
    (folder / ".lock").unlink(missing_ok=True)  # uv's own, and writable for everyone


def unpack_into(  # noqa: PLR0913 - what, for what, and how it is reported
    folder: Path, wheel: Path, sha256: str, *, python: Path, cache: Path, log: Path
) -> None:
    """Install one wheel, and nothing that it requires, into a folder.

    Args:
        folder: gets the package at its top, as site-packages would.
        wheel: the file.
        sha256: of it.
        python: that it has to fit.
        cache: cuwheel's cache.
        log: gets what uv says.

    Raises:
        InstallError: it is damaged, or for another Python or system.
        DiskFullError: a disk ran full.
    """
    project = wheel.name.partition("-")[0]
    with tempfile.TemporaryDirectory() as inputs:
        requirement = Path(inputs) / f"{project}.txt"
        uri = wheel.absolute().as_uri()
        requirement.write_text(f"{project} @ {uri} --hash=sha256:{sha256}\n", encoding="utf-8")
        where = ("--no-deps", "--target", folder.absolute(), "-r", requirement)
        words = (*_pip_install(python, offline=True), *where)
        what = f"{wheel.name} could not be unpacked for {python}"
        _run_uv(_Call(words=words, cache=cache, log=log, what=what))


def forget(names: Iterable[str], *, cache: Path) -> None:
    """Remove packages from uv's cache, so that the next installation fetches them again.

    Raises:
        InstallError: the cache can't be changed.
    """
    what = "the installer's cache could not be cleaned"
    _run_uv(_Call(words=("cache", "clean", *names), cache=cache, what=what))


def resolve(source: Path, *, python: str, uploaded_before: str, cache: Path, offline: bool) -> str:
    """Resolve requirements for all platforms and Pythons, and pin them with hashes.

    Args:
        source: requirements, `name` or `name==version` a line.
        python: the oldest Python to serve, `3.10`.
        uploaded_before: releases uploaded later are ignored, ISO 8601.
        cache: cuwheel's cache.
        offline: take everything from the cache.

    Returns:
        Lines in pip's requirements format; neither the index nor a path of this machine is named.

    Raises:
        InstallError: the index can't be reached, or nothing satisfies the requirements.
        DiskFullError: a disk ran full.
    """
    scope = ("--universal", "--python-version", python, "--exclude-newer", uploaded_before)
    form = ("--generate-hashes", "--no-annotate", "--no-header", "--no-emit-index-url")
    start = ("pip", "compile", *_OWN_PYTHON, sys.executable, *_offline(offline=offline))
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "lock"
        files = ("--no-emit-find-links", "--output-file", str(lock), str(source.absolute()))
        words = (*start, *scope, *form, "--only-binary", ":all:", *files)
        _run_uv(_Call(words=words, cache=cache, what=f"{source.name} could not be resolved"))
        return read_text(lock)


def _pip_install(python: Path, *, offline: bool) -> tuple[str | Path, ...]:
    # Everything comes from the mirror, where there is one, whatever indexes are configured. Its
    # address is a variable: everybody can read a program's arguments, and it may hold a password.
    origin = ("--no-index",) if configured_mirror(os.environ, offline=offline) else ()
    start = ("pip", "install", *_SAFE_OPTIONS, *_offline(offline=offline), *origin)
    return (*start, *_OWN_PYTHON, python.absolute())


def _inputs(lock: Path, only: Path | None) -> tuple[str | Path, ...]:
    if only:
        return ("-r", only.absolute(), "-c", lock.absolute())
    return ("-r", lock.absolute())


def _fixes(unlocked_fix: str) -> tuple[_Fix, ...]:
    own = (_Fix(says=_UNLOCKED, do=unlocked_fix),) if unlocked_fix else ()
    return (*own, *_FIXES)


def _offline(*, offline: bool) -> tuple[str, ...]:
    return ("--offline",) if offline else ()


def _install(call: _Call, console: Console) -> None:
    with console.live("installing") as line:
        _run_uv(replace(call, show=line.show, what=f"{call.what} could not be installed"))


def _run_uv(call: _Call) -> None:
    """Run uv, where no project's settings are in reach, and turn its failure into an error."""
    lines: list[str] = []

    def note_line(line: str, _: int) -> None:
        if line:  # an empty one is only the runner's sign of life
            lines.append(line)
        if line.strip().startswith(_PROGRESS):
            call.show(line.strip())

    passed = {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}
    own = {"UV_CACHE_DIR": str(call.cache.absolute() / "uv"), "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    if "--no-index" in call.words:
        mirror = configured_mirror(os.environ, offline="--offline" in call.words)
        own["UV_FIND_LINKS"] = mirror.wheels.replace(",", "%2C") if mirror else ""
    if call.stop:  # beside other work, which has the other cores
        own["UV_CONCURRENT_INSTALLS"] = "1"
    factor = slow_factor()
    passed.setdefault("UV_HTTP_TIMEOUT", str(max(1, round(_READ_TIMEOUT * factor))))
    watch = ProgramWatch(factor)
    stop = call.stop or Stop()
    done = run(
        [_find_uv(), *call.words],
        env={**passed, **own},
        cwd=Path(os.sep),
        log=call.log,
        on_line=note_line,
        gives_up=lambda pid: stop.is_asked() or watch.is_stalled(pid),
        check=False,
    )
    stop.check()
    if watch.fault:
        log = f"; its whole output is in {call.log}" if call.log else ""
        raise InstallError(call.what, why=f"uv was terminated: {watch.fault}", fix=SLOW_FIX + log)
    if done.status:
        raise _failure(call, lines)


def _find_uv() -> str:
    """The program of the engine's own environment, else the one on PATH.

    Raises:
        InstallError: there is none.
    """
    beside = Path(sys.executable).parent
    path = os.pathsep.join((str(beside), os.environ.get("PATH", os.defpath)))
    found = which("uv", path)
    if found is None:
        raise InstallError(
            "the program uv is missing",
            why=f"it is neither in {beside} nor on PATH",
            fix="run cuwheel through nox, which installs it from envs/engine.lock",
        )
    return found


def _failure(call: _Call, lines: list[str]) -> CuwheelError:
    if says_disk_full(lines):
        named = _FULL.search("\n".join(lines))
        return disk_full(Path(named[1]).parent if named else call.cache)
    said = "\n".join(lines)
    fix = next((fix.do for fix in call.fixes if re.search(fix.says, said)), "check what uv did")
    log = f"; its whole output is in {call.log}" if call.log else ""
    return InstallError(call.what, why=f"uv says: {_error_lines(lines)}", fix=fix + log)


def _error_lines(lines: list[str]) -> str:
    """The error and its causes on one line, without hints; the last line where it gives none."""
    found = [match for line in lines if (match := _REASON.fullmatch(line.strip()))]
    reasons = [match[2] for match in found if match[1] != "hint"]
    last = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
    return ": ".join(dict.fromkeys(reasons)) or last
