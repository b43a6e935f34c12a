"""Published wheels, read from the file, from its provenance, or from the address of either."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from cuwheel.base import limits
from cuwheel.base.errors import DownloadError, UnsafeArchiveError, UsageError
from cuwheel.base.fetch.download import PinnedFile, download
from cuwheel.base.fetch.urls import check_url, redact_url, split_url
from cuwheel.base.formats.binaries.archs import is_arch
from cuwheel.base.formats.wheel.archive import check_archive
from cuwheel.base.formats.wheel.publication import STATEMENT, build_tag_of, statement_of
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import remove_tree, sha256_of_file
from cuwheel.base.system.regular_files import parse_json, read_regular
from cuwheel.build.recipe.platform import PLATFORMS, Platform
from cuwheel.build.workspace.request import BuildRequest

_SHA256_SHOWN = 16  # characters of a hash
_COMMIT = re.compile(r"[0-9a-f]{40}")
_OPTIONS = {
    "framework": "framework",
    "link": "link",
    "toolchain": "provider",
    "host_compiler": "host_compiler",
    "platform": "platform",
}
_WHEEL = 16 * limits.GIB  # bytes
_HASH = "sha256="  # in an address' fragment, as indexes write it (PEP 503)


@dataclass(frozen=True, kw_only=True)
class PublishedWheel:
    """A wheel of another publisher, or only its statement.

    Attributes:
        wheel: it; None where there is only the statement.
        statement: the in-toto statement; empty where there is only the wheel.
    """

    named: Path
    sha256: str
    wheel: Path | None
    statement: dict[str, Any]

    @property
    def request(self) -> BuildRequest:
        """The build that is repeated."""
        stated = self.parameters
        texts: dict[str, Any] = {name: stated.get(key) or None for name, key in _OPTIONS.items()}
        if stated and stated.get("provider") != "conda":  # not stated where it was the machine's
            texts["host_compiler"] = texts["host_compiler"] or "system"
        python = (stated["python"],) if stated.get("python") else ()
        return BuildRequest(python=python, arch=tuple(stated.get("archs", ())), **texts)

    @property
    def foreign_platform(self) -> Platform | None:
        """Of the machines that it is for, where this one is of another kind; else None."""
        platform = PLATFORMS.get(self.parameters.get("platform", ""))
        return platform if platform and platform.is_foreign else None

    @property
    def wheel_name(self) -> str:
        """Its file name."""
        stated = [subject["name"] for subject in self.statement.get("subject", ())]
        return self.wheel.name if self.wheel else str(stated[0])

    @property
    def statement_file(self) -> Path:
        """Path of the statement, if there is one."""
        return statement_of(self.named) if self.named == self.wheel else self.named

    @property
    def build_tag(self) -> int:
        """The number in its file name; 0: it has none."""
        return build_tag_of(self.wheel_name)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the request in the provenance; empty without a statement."""
        return dict(self._definition.get("externalParameters", {}))

    @property
    def recipe_file(self) -> str:
        """Its recipe, as a path in the project: `recipes/x.py`; empty where none is stated."""
        named = (name.partition(" ") for name in self.hashes)
        return next((path for kind, _, path in named if kind == "recipe"), "")

    @property
    def materials(self) -> dict[str, str]:
        """Name of each thing that went in, and its hash or version."""
        return {
            name: f"{version} {digests.get('sha256', '')[:_SHA256_SHOWN]}".strip()
            for name, version, digests in self._dependencies
        }

    @property
    def hashes(self) -> dict[str, str]:
        """Name and SHA-256 of each thing that went in and has one."""
        return {
            name: digests["sha256"]
            for name, _, digests in self._dependencies
            if digests.get("sha256")
        }

    @property
    def source_state(self) -> str:
        """Commit and changes of a source given with `--source`; empty: none is stated."""
        states = (state for name, state, _ in self._dependencies if name.startswith("source "))
        return str(next(states, ""))

    @property
    def commit(self) -> str:
        """Of cuwheel's checkout, 40 hexadecimal digits; empty where none is stated."""
        digests = {name: digests for name, _, digests in self._dependencies}
        return str(digests.get("checkout of cuwheel", {}).get("gitCommit", ""))

    @property
    def _dependencies(self) -> list[tuple[str, str, dict[str, str]]]:
        """Name, version and hashes of each thing that went in."""
        return [
            (one["name"], one.get("annotations", {}).get("version", ""), one.get("digest", {}))
            for one in self._definition.get("resolvedDependencies", ())
        ]

    @property
    def _definition(self) -> dict[str, Any]:
        return dict(self.statement.get("predicate", {}).get("buildDefinition", {}))


def read_published(path: Path, option: str = "--against ") -> PublishedWheel:
    """Read a wheel, or the provenance of one; raise a UsageError for anything else."""
    try:
        if path.suffix == ".whl":
            provenance = statement_of(path)
            stated = _read_json(provenance) if os.path.lexists(provenance) else {}
            check_archive(path)  # before an hour of building
            published = PublishedWheel(
                named=path, sha256=sha256_of_file(path), wheel=path, statement=stated
            )
        else:
            published = _of_statement(path)
        _check_statement(published)
    except FileNotFoundError as problem:
        raise UsageError(
            f"{option}{path} does not exist",
            why="there is no such file, relative to the working directory",
            fix="give an existing .whl, or the .provenance.json beside one",
        ) from problem
    except UnsafeArchiveError as problem:
        raise UsageError(
            f"{option}{path} can't be read as a wheel",
            why=problem.why,
            fix="get the file again from its publisher",
        ) from problem
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        reason = (isinstance(problem, OSError) and problem.strerror) or problem
        raise UsageError(
            f"{option}{path} is neither a wheel nor the provenance of one",
            why=f"it has no {problem}" if isinstance(problem, KeyError) else str(reason),
            fix="give a .whl, or the .provenance.json that cuwheel writes beside it",
        ) from problem
    return published


def check_is_of(theirs: PublishedWheel, recipe: str, tag: str) -> None:
    """Raise a UsageError if a published wheel isn't of the session's recipe and toolkit."""
    parameters = theirs.parameters
    stated = (parameters.get("recipe", recipe), parameters.get("toolkit", tag).replace(".", ""))
    if stated != (recipe, tag):
        raise UsageError(
            f"{theirs.named.name} is not a wheel of {recipe} for toolkit {tag}",
            why=f"its provenance says {stated[0]}, toolkit {stated[1]}",
            fix=f"nox -s verify -- {stated[0]}-{stated[1]} --against {theirs.named}",
        )


def _read_json(path: Path) -> Any:
    return parse_json(read_regular(path, limit=limits.JSON))


def _of_statement(path: Path) -> PublishedWheel:
    stated = _read_json(path)
    [subject] = stated["subject"]
    wheel = path.with_name(Path(subject["name"]).name)
    return PublishedWheel(
        named=path,
        sha256=subject["digest"]["sha256"],
        wheel=wheel if wheel.is_file() else None,
        statement=stated,
    )


def _check_statement(published: PublishedWheel) -> None:
    """Check values of a statement, since they become a command line."""
    for name in (*_OPTIONS.values(), "python", "recipe", "toolkit"):
        value = published.parameters.get(name, "")
        if not isinstance(value, str) or value.startswith("-") or "/" in value:
            raise ValueError(f"its {name} is {value!r}")
    if not isinstance(container := published.parameters.get("container", ""), str):
        raise TypeError(f"its container is {container!r}")
    archs = published.parameters.get("archs", [])
    if not isinstance(archs, list):
        raise TypeError(f"its archs are {archs!r}")
    for arch in archs:
        if not is_arch(arch):
            raise ValueError(f"one of its archs is {arch!r}")
    _ = published.materials, published.build_tag, published.hashes
    if published.commit and not _COMMIT.fullmatch(published.commit):
        raise ValueError(f"its checkout is {published.commit!r}")
    if published.wheel and published.statement:
        [subject] = published.statement["subject"]
        if sha256_of_file(published.wheel) != subject["digest"]["sha256"]:
            raise ValueError(
                f"{published.wheel.name} is not the wheel that the provenance describes"
            )


def is_address(text: str) -> bool:
    """Return True if a text is an address, not a file."""
    return split_url(text).scheme in {"http", "https", "file"}


def fetch_published(address: str, folder: Path, console: Console) -> Path:
    """Fetch a wheel and its provenance; return the path of the one that was named.

    Raises:
        UsageError: it is the address of something else.
        CuwheelError: the download failed, or its bytes aren't those that the address names.
    """
    check_url(address, "the address")
    parts = urlsplit(address)
    name = PurePosixPath(unquote(parts.path)).name
    is_statement = name.endswith(STATEMENT)
    wheel = folder / name.removesuffix(STATEMENT)
    if wheel.suffix != ".whl":
        raise UsageError(
            f"{redact_url(address)} is neither a wheel nor the provenance of one",
            why=f"its last part is {name or 'empty'}",
            fix="give the address of a .whl, or of the .provenance.json beside it",
        )
    remove_tree(folder)
    folder.mkdir(parents=True)
    of_wheel = parts.path.removesuffix(STATEMENT)
    sha256 = parts.fragment.removeprefix(_HASH) if parts.fragment.startswith(_HASH) else ""
    plain = parts._replace(fragment="")

    def get(path: Path, url_path: str, most: int, digest: str = "") -> None:
        file = PinnedFile(name=path.name, sha256=digest, max_size=most, pinned_by="the address")
        try:
            download(file, path, urlunsplit(plain._replace(path=url_path)), console=console)
        except DownloadError as problem:
            fix = "ask the publisher of the wheel for it; both are needed, side by side"
            raise DownloadError(problem.what, why=problem.why, fix=fix) from problem

    get(statement_of(wheel), f"{of_wheel}{STATEMENT}", limits.JSON)
    if is_statement:
        # What was published may be gone; then there are hashes to compare, and no kernels.
        with contextlib.suppress(DownloadError):
            get(wheel, of_wheel, _WHEEL)
        return statement_of(wheel)
    get(wheel, of_wheel, _WHEEL, sha256)
    return wheel
