"""Requirements that a user's environment lacks: found, as wheels with hashes, and installed.

uv resolves and installs in three runs, so that all files can be looked at in between: which
releases are missing, where their wheels are, and these very files from a folder, without an index.
It follows no direct reference of a wheel from an index, and builds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel.base.errors import InstallError
from cuwheel.base.fetch.indexes.indexes import configured_indexes
from cuwheel.base.fetch.indexes.offers import IndexFile
from cuwheel.base.fetch.indexes.pages import with_credentials
from cuwheel.base.fetch.indexes.uv_settings import local_sources
from cuwheel.base.fetch.urls import is_local, local_path, redact_url
from cuwheel.base.system.files import checked_sha256
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.regular_files import read_toml
from cuwheel.build.environments.uv import OWN_PYTHON, is_unreachable, run_uv
from cuwheel.check.diagnose.rules.installer import Installer

_WHEELS_ONLY = ("--only-binary", ":all:")
_PLANNED = re.compile(r"\s([+~-]) (\S+)==(\S+)")  # lines of `uv pip install --dry-run`


@dataclass(frozen=True, kw_only=True)
class UserEnvironment:
    """An environment that isn't cuwheel's."""

    python: Path
    installer: Installer
    environ: Mapping[str, str]
    cache: Path
    log: Path

    @property
    def refusal(self) -> str:
        """What an error states of it."""
        return f"nothing can be installed into {self.python.parent.parent}"

    def run(self, *argv: str | Path, what: str) -> list[str]:
        """Run uv with the caller's indexes, and return the lines of its output."""
        environ = self.environ
        return run_uv(
            argv, cache=self.cache, what=what, log=self.log, environ=environ, with_pips=True
        )


def missing_releases(
    environment: UserEnvironment, wanted: Sequence[str], there: Iterable[str], *, but: str
) -> tuple[str, ...]:
    """Return the releases that requirements need and an environment lacks, `name==version`.

    Args:
        wanted: requirements; a wheel of this machine among them isn't returned.
        there: what is installed, `name==version`, and stays.
        but: the one installed package that may be replaced.

    Raises:
        InstallError: no wheels satisfy them together with what is there.
    """
    pins, why = tuple(there), ""
    try:
        planned = _planned(environment, wanted, pins)
    except InstallError as error:
        if is_unreachable(error):
            raise
        try:  # without the pins: shows which of them are in the way
            planned, why = _planned(environment, wanted, ()), f"; {error.why}"
        except InstallError:
            raise error from None
    if [name for sign, name, _ in planned if sign != "+" and canonicalize_name(name) != but]:
        raise _replacement_error(environment, planned, but, why)
    return tuple(f"{name}=={version}" for sign, name, version in planned if sign == "+")


def _replacement_error(
    environment: UserEnvironment, planned: Sequence[tuple[str, str, str]], but: str, why: str
) -> InstallError:
    """Return the error of a plan that replaces what is installed; `why` continues its reason."""
    old, new = (
        {
            canonicalize_name(name): f"{name}=={version}"
            for sign, name, version in planned
            if (sign == "+") == is_new and canonicalize_name(name) != but
        }
        for is_new in (False, True)
    )
    others = [new[name] for name in old if name in new]
    fix = "use another environment: python3 -m venv DIR, and --python DIR"
    if command := environment.installer.install(*others):
        fix = (
            f"if nothing else there needs {', '.join(old.values())}: `{command}`, then again; "
            f"or {fix}"
        )
    return InstallError(
        environment.refusal,
        why=f"{', '.join(old.values())} would be replaced by {', '.join(others)}{why}",
        fix=fix,
    )


def _planned(
    environment: UserEnvironment, wanted: Sequence[str], there: Iterable[str]
) -> list[tuple[str, str, str]]:
    """Return uv's plan: `+`, `-` or `~`, name and version."""
    with temporary_folder() as folder:
        constraints, requirements = folder / "there.txt", folder / "wanted.txt"
        constraints.write_text("".join(f"{pin}\n" for pin in there))
        requirements.write_text("".join(f"{line}\n" for line in wanted))
        options = (*_WHEELS_ONLY, "--constraint", constraints, "-r", requirements)
        start = ("pip", "install", "--dry-run", *OWN_PYTHON, environment.python)
        lines = environment.run(*start, *options, what=environment.refusal)
    matches = filter(None, map(_PLANNED.fullmatch, lines))
    return [(match[1], match[2], match[3]) for match in matches]


def wheels_of(
    environment: UserEnvironment, pins: Sequence[str]
) -> tuple[tuple[IndexFile, ...], ...]:
    """Return the wheels of each `name==version`, with hashes, as the caller's indexes offer them.

    Raises:
        InstallError: a release has no wheel with a hash, or one of another place than its index's.
    """
    if not pins:
        return ()
    with temporary_folder() as folder:
        source, lock = folder / "pins.txt", folder / "pylock.toml"
        source.write_text("".join(f"{pin}\n" for pin in pins))
        files = ("--format", "pylock.toml", "--output-file", lock, source)
        argv = ("pip", "compile", "--no-deps", *_WHEELS_ONLY, *OWN_PYTHON, environment.python)
        environment.run(*argv, *files, what=f"{', '.join(pins)} could not be found")
        packages: list[dict[str, Any]] = read_toml(lock).get("packages", [])
    indexes = configured_indexes(environment.environ)
    folders = local_sources(environment.environ)
    return tuple(tuple(_files(package, indexes, folders)) for package in packages)


def _files(
    package: dict[str, Any], indexes: Iterable[str], folders: Iterable[Path]
) -> Iterable[IndexFile]:
    """Return the wheels of a package of a `pylock.toml` (PEP 751)."""
    release = f"{package['name']} {package['version']}"
    files = []
    for wheel in package.get("wheels", []):
        url = str(wheel.get("url") or Path(wheel.get("path", "")).absolute().as_uri())
        path = local_path(url).resolve()
        if is_local(url) and not any(map(path.is_relative_to, folders)):
            raise InstallError(
                f"{release} can't be installed",
                why=f"an index names {redact_url(url)}, a file of this machine",
                fix="use another index: one on a server may only name files on servers",
            )
        for index in indexes:
            url = with_credentials(url, index)
        sha256 = checked_sha256(str(wheel.get("hashes", {}).get("sha256", "")))
        name = str(wheel.get("name") or unquote(url.partition("#")[0].rpartition("/")[2]))
        files.append(IndexFile(name=name, url=url, sha256=sha256, size=wheel.get("size")))
    hashed = [file for file in files if file.sha256]
    if not hashed:
        raise InstallError(
            f"{release} can't be installed",
            why="its index gives no SHA-256 of a wheel" if files else "it has no wheel",
            fix="install it yourself first, or use an index that gives hashes (PEP 503 or 691)",
        )
    return hashed


def install_wheels(environment: UserEnvironment, wheels: Mapping[Path, str], folder: Path) -> None:
    """Install these wheels, and nothing that they require.

    Args:
        wheels: each with its SHA-256.
        folder: on the environment's disk; gets uv's cache, so that files are linked.

    Raises:
        InstallError: one is damaged, has another hash, or doesn't fit.
        DiskFullError: a disk ran full.
    """
    links = folder / "wheels"
    links.mkdir()
    lines = []
    for wheel, sha256 in wheels.items():
        (links / wheel.name).symlink_to(wheel.absolute())
        name, version = wheel.name.split("-")[:2]
        lines.append(f"{name}=={version} --hash=sha256:{sha256}\n")
    requirements = folder / "wheels.txt"
    requirements.write_text("".join(lines))
    closed = ("--no-deps", "--no-index", "--offline", "--find-links", links, "--require-hashes")
    argv = ("pip", "install", "--reinstall", *closed, *_WHEELS_ONLY, "--link-mode", "hardlink")
    run_uv(
        (*argv, *OWN_PYTHON, environment.python, "-r", requirements),
        cache=folder,
        what=environment.refusal,
        log=environment.log,
        environ={"PATH": environment.environ.get("PATH", ""), "UV_NO_CONFIG": "1"},
    )


def direct_references(requires: Iterable[str], around: Mapping[str, str]) -> tuple[str, ...]:
    """Return the `Requires-Dist` that name an address in place of a release.

    Args:
        around: variables of markers, `extra` among them.
    """
    return tuple(line for line in requires if _is_direct(line, around))


def _is_direct(line: str, around: Mapping[str, str]) -> bool:
    try:
        requirement = Requirement(line)
        applies = not requirement.marker or requirement.marker.evaluate(dict(around))
    except (InvalidRequirement, ValueError, RecursionError):
        return "@" in line  # what can't be read may be one
    return bool(requirement.url) and applies
