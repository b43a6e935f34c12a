"""A lock of a stack: uv chooses among the fitting wheels, and writes all with hashes (PEP 751)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement

from cuwheel.base.errors import DownloadError, InstallError, UsageError
from cuwheel.base.fetch.indexes.offers import Offer, with_hash
from cuwheel.base.fetch.urls import redact_url, without_credentials
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.regular_files import read_text, read_toml
from cuwheel.base.system.versions import version_key
from cuwheel.build.environments.uv import OWN_PYTHON, is_unreachable, run_uv
from cuwheel.check.pick.stack import TORCH, StackFit
from cuwheel.publish.stack.given_indexes import GivenIndexes
from cuwheel.publish.stack.offer_server import serving_offers

_URL = re.compile(r'(?<=\burl = )"([^"]+)"')
_INDEX = re.compile(r'^index = "http://127\.0\.0\.1:[^"]*"\n', re.MULTILINE)
# Names of C libraries that uv has, the newest last.
_PLATFORMS = ("2_17", "2_28", *(f"2_{minor}" for minor in range(31, 41)))
_USUAL_PLATFORM = "2_28"  # of PyTorch's wheels
_NO_PROXY = ("NO_PROXY", "no_proxy")
_PACKAGE = "[[packages]]\n"
_LONGEST = 600  # characters of uv's reason


@dataclass(frozen=True, kw_only=True)
class StackLock:
    """A resolved stack.

    Attributes:
        text: of a `pylock.toml`.
        packages: how many packages it has.
        files: names of their wheels.
        unhashed: packages for which an index states no SHA-256, so that the text can't be used.
    """

    text: str
    packages: int
    files: frozenset[str]
    unhashed: tuple[str, ...] = ()


def lock_stack(  # noqa: PLR0913 - what to resolve, and from where
    fit: StackFit,
    wanted: Mapping[str, Requirement],
    constraints: tuple[Path, ...],
    environ: Mapping[str, str],
    *,
    given: GivenIndexes,
    cache: Path,
) -> StackLock:
    """Resolve a cell's wheels and all that they require.

    Of the wanted packages uv gets only the wheels that fit. What these require is from the given
    indexes, and from the configured ones where these don't have it.

    Raises:
        InstallError: nothing satisfies all requirements.
        DownloadError: an index didn't answer.
    """
    offers = {
        name: [with_hash(wheel.offer) for wheel in wheels] for name, wheels in fit.fitting.items()
    }
    with temporary_folder() as folder, serving_offers(offers, given.find) as index:
        source, lock = folder / "stack.txt", folder / "pylock.toml"
        source.write_text("".join(f"{line}\n" for line in _requirements(fit, wanted)))
        limits = [word for path in constraints for word in ("--constraint", path)]
        machine = ("--python-version", fit.cell.python, "--python-platform", _platform(fit))
        form = ("--format", "pylock.toml", "--no-header", "--output-file", lock)
        strict = ("--only-binary", ":all:", "--index-strategy", "first-index")
        argv = ("pip", "compile", *OWN_PYTHON, sys.executable, *machine, *strict, *form)
        try:
            run_uv(
                (*argv, *limits, source),
                cache=cache,
                environ=_environ(environ, index),
                what=f"the wheels for {fit.cell} don't go together",
                with_pips=True,
            )
        except InstallError as error:
            if given.fault:
                raise given.fault from error
            if is_unreachable(error):
                what = f"what {', '.join(wanted)} require can't be looked up"
                raise DownloadError(what, why=error.why, fix=error.fix) from error
            raise
        packages: list[dict[str, Any]] = read_toml(lock).get("packages", [])
        text = _INDEX.sub("", read_text(lock))
    found = {name: files for name, files in given.files.items() if files}
    _check_origin(packages, {**found, **offers})
    return StackLock(
        text=_URL.sub(lambda match: f'"{without_credentials(match[1])}"', text),
        packages=len(packages),
        files=frozenset(_identity_of(file)[0] for item in packages for file in _files(item)),
        unhashed=tuple(str(package["name"]) for package in packages if not _is_hashed(package)),
    )


def merge_locks(locks: Mapping[str, StackLock]) -> StackLock:
    """Return a lock for several kinds of machine, by `platform_machine`: PEP 751 with markers."""
    heads = {platform: lock.text.split(_PACKAGE) for platform, lock in locks.items()}
    blocks: dict[str, list[str]] = {}
    for platform, (_, *packages) in heads.items():
        for block in packages:
            blocks.setdefault(block.rstrip("\n"), []).append(platform)
    markers = {name: f"platform_machine == '{name}'" for name in locks}
    environments = ", ".join(f'"{marker}"' for marker in markers.values())
    head = next(iter(heads.values()))[0].rstrip("\n")
    texts = [f"{head}\nenvironments = [{environments}]\n"]
    for block, platforms in sorted(blocks.items()):
        marker = " or ".join(markers[name] for name in platforms)
        limit = "" if len(platforms) == len(locks) else f'\nmarker = "{marker}"'
        name, _, rest = block.partition("\n")
        texts.append(f"{name}{limit}\n{rest}\n")
    return StackLock(
        text=f"\n{_PACKAGE}".join(texts),
        packages=max(lock.packages for lock in locks.values()),
        files=frozenset().union(*(lock.files for lock in locks.values())),
        unhashed=tuple(dict.fromkeys(name for lock in locks.values() for name in lock.unhashed)),
    )


def conflict_of(error: InstallError) -> str:
    """Return uv's reason on one line."""
    text = re.sub(r"\s+", " ", error.why.removeprefix("uv says: "))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _requirements(fit: StackFit, wanted: Mapping[str, Requirement]) -> list[str]:
    lines = [str(requirement) for name, requirement in wanted.items() if name != TORCH]
    if fit.cell.torch:
        extras = f"[{','.join(sorted(wanted[TORCH].extras))}]" if TORCH in wanted else ""
        lines.append(f"{TORCH}{extras.replace('[]', '')}=={fit.cell.torch}")
    return [*lines, *(need for wheel in fit.wheels.values() for need in wheel.needs)]


def _platform(fit: StackFit) -> str:
    """Return uv's name of the machine: of the newest C library that isn't newer than its own."""
    glibc = version_key(fit.machine.glibc or _USUAL_PLATFORM.replace("_", "."))
    older = [name for name in _PLATFORMS if version_key(name.replace("_", ".")) <= glibc]
    return f"{fit.machine.platform}-manylinux_{(older or _PLATFORMS)[-1 if older else 0]}"


def _environ(environ: Mapping[str, str], index: str) -> dict[str, str]:
    """Return the caller's variables with one more index, the first."""
    direct = {name: f"127.0.0.1,{environ.get(name, '')}".rstrip(",") for name in _NO_PROXY}
    others = environ.get("UV_INDEX", "")
    return {**environ, **direct, "UV_INDEX": f"{index} {others}".strip()}


def _is_hashed(package: Mapping[str, Any]) -> bool:
    wheels = package.get("wheels", [])
    return bool(wheels) and all(wheel.get("hashes", {}).get("sha256") for wheel in wheels)


def _check_origin(
    packages: Iterable[Mapping[str, Any]], offers: Mapping[str, Sequence[Offer]]
) -> None:
    """Raise InstallError if a locked file of a project isn't one of its offers.

    A folder or page of a setting has one, an address in a constraint, or another index.
    """
    for package in packages:
        project = str(package["name"])
        own = offers.get(project, ())
        known = {_identity(offer.name, offer.url, offer.sha256) for offer in own}
        files = _files(package)
        strangers = [file for file in files if _identity_of(file) not in known]
        if own and (strangers or not files):
            place = _address(strangers[0]) if strangers else "an unknown place"
            raise InstallError(
                f"{project} {package.get('version', '')} can't be used".replace("  ", " "),
                why=f"uv took {redact_url(place)}, which is not among the wheels that fit; the "
                f"best of these is {own[0].name} from {redact_url(own[0].index)}",
                fix="unset the settings that name that place: UV_FIND_LINKS= PIP_FIND_LINKS=, and "
                "look for an address in constraints and uv.toml",
            )


def _files(package: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a package's wheels, or what PEP 751 has in place of these."""
    kinds = ("sdist", "archive", "vcs", "directory")
    return [*package.get("wheels", ()), *(package[kind] for kind in kinds if kind in package)]


def _address(file: Mapping[str, Any]) -> str:
    return str(file.get("url") or file.get("path") or "an unknown place")


def _identity_of(file: Mapping[str, Any]) -> tuple[str, str]:
    address = _address(file)
    name = str(file.get("name") or unquote(urlsplit(address).path.rpartition("/")[2]))
    return _identity(name, address, str(file.get("hashes", {}).get("sha256", "")))


def _identity(name: str, url: str, sha256: str) -> tuple[str, str]:
    """Return a file's name and SHA-256; its address where an index states none."""
    address = unquote(without_credentials(url).partition("#")[0])
    return name, sha256.lower() or address


_NAME = re.compile(r"pylock(\.[^.]+)?\.toml")  # PEP 751


def check_lock_name(path: Path) -> None:
    """Raise UsageError for a name that installers don't take for a lock."""
    if not _NAME.fullmatch(path.name):
        raise UsageError(
            f"--lock {path.name} is not the name of a lock",
            why="pip and uv know it by its name (PEP 751)",
            fix="write --lock pylock.toml, or --lock pylock.NAME.toml",
        )


def write_lock(lock: StackLock, path: Path) -> None:
    """Write a lock.

    Raises:
        InstallError: an index states no hash of a file.
    """
    if lock.unhashed:
        raise InstallError(
            f"{path.name} can't hold {', '.join(lock.unhashed)} by hash",
            why="the index that has the wheel states no SHA-256",
            fix="leave that package out and install it by its address, which "
            f"`nox -s pick -- {lock.unhashed[0]}` shows; or use an index that gives hashes",
        )
    write_atomically(path, lock.text)
