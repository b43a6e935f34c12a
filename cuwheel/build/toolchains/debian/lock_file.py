"""Debian locks, `debian.lock`: YAML of this project's own form, with one package a line.

Every field is compared with its form, and the whole with the lock's hash of its content, so that
nothing else of a lock reaches a path or an address.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from cuwheel.base.errors import LockError
from cuwheel.build.toolchains.conda.environment_file import read_yaml
from cuwheel.build.toolchains.debian.source_file import (
    ARCHITECTURES,
    COMPONENT,
    PACKAGE,
    SOURCE_NAME,
    SUITE,
    VERSION,
    name_of_lock,
    read_source,
)

LOCK_NAME = "debian.lock"

_FORM = 1  # of the file
_SHA256 = r"[0-9a-f]{64}"
_ANY_MACHINE = "all"  # the architecture of packages without machine code
_FIELDS = {  # of a package, in their order in the file
    "name": PACKAGE,
    "version": VERSION,
    "architecture": "|".join((*ARCHITECTURES.values(), _ANY_MACHINE)),
    "size": r"[1-9]\d{0,11}",
    "sha256": _SHA256,
    "path": r"pool(?:/[\w+~-][\w.+~-]*)+\.deb",
}


@dataclass(frozen=True, kw_only=True)
class DebianPackage:
    """One file of a Debian archive.

    Attributes:
        name: of the package, `g++-12`.
        version: `12.2.0-14`.
        architecture: `amd64`, `arm64`, or `all`.
        path: below the archive's root, `pool/main/g/gcc-12/g++-12_12.2.0-14_amd64.deb`.
        size: bytes.
        sha256: 64 hexadecimal digits.
    """

    name: str
    version: str
    architecture: str
    path: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        """`g++-12_12.2.0-14_amd64.deb`."""
        return PurePosixPath(self.path).name

    @property
    def url(self) -> str:
        """Its name as the package-url specification's type `deb` writes it, for statements."""
        return f"pkg:deb/debian/{self.name}@{self.version}?arch={self.architecture}"


@dataclass(frozen=True, kw_only=True)
class DebianLock:
    """Solved packages of one suite.

    Attributes:
        input_digest: SHA-256 over the content of its `debian.yml`.
        index_sha256: of the signed index, `InRelease`, that it was solved from.
        index_date: the field `Date` of that index.
        packages: by architecture, `amd64`; sorted by name.
    """

    suite: str
    components: tuple[str, ...]
    input_digest: str
    index_sha256: str
    index_date: str
    packages: Mapping[str, tuple[DebianPackage, ...]]

    def packages_for(self, machine: str) -> tuple[DebianPackage, ...]:
        """Return the packages for a machine, `x86_64` or `aarch64`.

        Raises:
            LockError: it has none.
        """
        architecture = ARCHITECTURES.get(machine, machine)
        if architecture not in self.packages:
            raise LockError(
                f"the lock of Debian {self.suite} has no packages for {machine}",
                why=f"it has those of {', '.join(self.packages)}",
                fix=f"add {architecture} to `architectures` in its {SOURCE_NAME}, if that suite "
                "has it, and write the lock again with `nox -s lock`",
            )
        return self.packages[architecture]

    def digest_for(self, machine: str) -> str:
        """Return the SHA-256 over the packages' hashes for a machine; errors: `packages_for`."""
        hashes = sorted(package.sha256 for package in self.packages_for(machine))
        return hashlib.sha256("\n".join(hashes).encode()).hexdigest()

    def stated_packages(self, machine: str) -> tuple[tuple[str, str, str, str], ...]:
        """Return the packages for a machine as `Toolchain.packages` names them.

        Raises:
            LockError: as `packages_for`.
        """
        return tuple(
            (f"Debian package {package.name}", package.version, package.url, package.sha256)
            for package in self.packages_for(machine)
        )

    @property
    def content(self) -> str:
        """SHA-256 over all of it."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def read_debian_lock(path: Path) -> DebianLock:
    """Read a `debian.lock`.

    Raises:
        LockError: it is missing, malformed, edited by hand, or older than the `debian.yml` next to
            it.
    """
    relock = f"nox -s lock -- {name_of_lock(path.parent.name)}"
    name = f"{path.parent.name}/{path.name}"
    if not path.is_file():
        raise LockError(
            f"{name} is missing", why="Debian packages are only taken from their lock", fix=relock
        )
    try:
        return _lock_of_file(path)
    except (yaml.YAMLError, ValueError) as problem:
        kind = "it is not valid YAML: " if isinstance(problem, yaml.YAMLError) else ""
        raise LockError(
            f"{name} can't be used",
            why=kind + " ".join(str(problem).split()),
            fix=f"git checkout {path}, or write it again: `{relock}`",
        ) from problem


def faults_of_debian_lock(path: Path) -> list[str]:
    """Return everything that is wrong with a Debian lock; empty when it is valid.

    Raises:
        LockError: its `debian.yml` is missing or invalid.
    """
    read_source(path.with_name(SOURCE_NAME))
    if not path.is_file():
        return ["it is missing"]
    try:
        read_debian_lock(path)
    except LockError as error:
        return [error.why]
    return []


def render_debian_lock(lock: DebianLock, command: str) -> str:
    """Return the text of a lock; the same for equal locks.

    Args:
        command: writes it.
    """
    index = {"sha256": lock.index_sha256, "date": lock.index_date}
    lines = [
        f"# Written by `{command}`; don't edit.",
        f"form: {_FORM}",
        f"suite: {lock.suite}",
        f"components: {_flow(lock.components)}",
        f"input: {_flow(lock.input_digest)}",
        f"index: {_flow(index)}",
        f"content: {_flow(lock.content)}",
        "packages:",
    ]
    for architecture, packages in sorted(lock.packages.items()):
        lines.append(f"  {architecture}:")
        for package in packages:
            fields = asdict(package)
            lines.append(f"  - {_flow({key: fields[key] for key in _FIELDS})}")
    return "\n".join((*lines, ""))


def _flow(value: object) -> str:
    """Return a value as YAML on one line, in the part of it that JSON is."""
    return json.dumps(value, ensure_ascii=False)


def _lock_of_file(path: Path) -> DebianLock:
    """Return the lock in a file; raises ValueError with the first thing that is wrong."""
    document = read_yaml(path)
    try:
        lock, stated = _lock_of_document(document)
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"it has another form than {LOCK_NAME}: {problem}") from problem
    if stated != lock.content:
        raise ValueError("it was edited by hand: its packages don't match its `content`")
    source = path.with_name(SOURCE_NAME)
    if source.is_file() and lock.input_digest != read_source(source).input_digest:
        raise ValueError(f"{SOURCE_NAME} has changed since it was written")
    return lock


def _lock_of_document(document: Any) -> tuple[DebianLock, str]:
    """Return the lock in a document, and the document's own hash of its content."""
    if document["form"] != _FORM:
        raise ValueError(f"its form is {document['form']}, not {_FORM}")
    packages = {
        architecture: tuple(map(_package, listed))
        for architecture, listed in document["packages"].items()
    }
    for architecture, listed in packages.items():
        if architecture not in ARCHITECTURES.values():
            raise ValueError(f"it has packages of an unknown architecture: {architecture!r}")
        if not {package.architecture for package in listed} <= {architecture, _ANY_MACHINE}:
            raise ValueError(f"it has packages of other architectures below {architecture}")
        names = [package.name for package in listed]
        if names != sorted({*names}):
            raise ValueError(f"its packages of {architecture} aren't sorted, or one is there twice")
    lock = DebianLock(
        suite=_text(document, "suite", SUITE),
        components=tuple(
            _text({"component": name}, "component", COMPONENT) for name in document["components"]
        ),
        input_digest=_text(document, "input", _SHA256),
        index_sha256=_text(document["index"], "sha256", _SHA256),
        index_date=_text(document["index"], "date", r"[\w,:+ -]+"),
        packages=packages,
    )
    return lock, _text(document, "content", _SHA256)


def _package(fields: Any) -> DebianPackage:
    if fields.keys() != _FIELDS.keys():
        raise ValueError(f"a package has the fields {', '.join(map(str, fields))}")
    texts = {key: _text(fields, key, form) for key, form in _FIELDS.items()}
    return DebianPackage(**{**texts, "size": int(texts["size"])})  # type: ignore[arg-type]


def _text(content: Mapping[str, Any], key: str, form: str) -> str:
    """Return a field as text, if it has its form."""
    value = str(content[key])
    if not re.fullmatch(form, value, re.ASCII):
        raise ValueError(f"{content.get('name', 'it')}: `{key}` is invalid: {value!r}")
    return value
