"""Lock files: pip's requirements format, with hashes, and a header with the hash of the input."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel.base import limits
from cuwheel.base.errors import LockError
from cuwheel.base.system.regular_files import read_text

_INCLUDE = re.compile(r"^-r\s+(\S+)$", re.MULTILINE)
_FIELD = re.compile(r"^# (input|content) +sha256:([0-9a-f]{64})$", re.MULTILINE)
# Of a framework's requirements, the version of the first of these is the CUDA release:
# cuda-toolkit for torch from 2.11 on, the runtime's wheel before.
_CUDA_PACKAGES = (
    *("cuda-toolkit", "nvidia-cuda-runtime"),
    *("nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11"),
)
_PYTHONS = re.compile(r"^# pythons +(.+)$", re.MULTILINE)
_SHOWN = 80  # characters of a generated line that a message shows
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_PIN = re.compile(r"([A-Za-z0-9][^#]*?)((\s+--hash=sha256:[0-9a-f]{64})*)(\s+#.*)?")
_EXACT = re.compile(r"={2,3}[^*,]+")


@dataclass(frozen=True, kw_only=True)
class Pin:
    """A package of a lock.

    Attributes:
        requirement: `name==version`, with its marker if it has one.
        hashes: SHA-256 of every file that may be installed for it.
    """

    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def version(self) -> str:
        """The pinned version."""
        return next(iter(self.requirement.specifier)).version


def as_input(requirements: Iterable[str]) -> str:
    """Return requirements in a resolver's form: one a line, in order."""
    return "\n".join(sorted(requirements)) + "\n"


def read_input(source: Path, *, including: tuple[Path, ...] = ()) -> str:
    """Read a `.in` file with its `-r` includes put in and comments taken out.

    Raises:
        LockError: it isn't there, or includes itself.
    """
    if source in including:
        raise LockError(
            f"{source.name} includes itself",
            why=" includes ".join(path.name for path in (*including, source)),
            fix="remove one of these `-r` lines",
        )
    try:
        text = read_text(source, limit=limits.LOCK, errors="replace")
    except FileNotFoundError:
        raise LockError(
            f"{source.name} is missing",
            why="it lists what the lock has to contain",
            fix=f"write {source}, one requirement per line",
        ) from None
    chain = (*including, source)
    text = _INCLUDE.sub(lambda line: read_input(source.parent / line[1], including=chain), text)
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    return as_input(line for line in lines if line)


def render(
    body: str, *, input_text: str, command: str, cooldown: str, pythons: tuple[str, ...] = ()
) -> str:
    """Return a lock file's whole text.

    Args:
        input_text: from `as_input` or `read_input`.
        cooldown: nothing uploaded after this time was considered, ISO 8601.
        pythons: those that the framework in it has wheels for, `3.12`; empty: it holds none.
    """
    content = "\n".join(line for line in body.splitlines() if not line.startswith("#")) + "\n"
    return (
        f"# Written by `{command}`; don't edit.\n"
        f"# input    sha256:{digest_of_text(input_text)}\n"
        f"# content  sha256:{digest_of_text(content)}\n"
        + (f"# pythons  {' '.join(pythons)}\n" if pythons else "")
        + f"# uploaded before {cooldown}\n{content}"
    )


def faults_of_lock(lock: Path, input_text: str) -> list[str]:
    """Return everything that is wrong with a lock; empty when it is valid.

    Args:
        input_text: its input, from `as_input` or `read_input`.
    """
    if not lock.is_file():
        return ["it is missing"]
    text = read_text(lock, limit=limits.LOCK, errors="replace")
    fields = dict(_FIELD.findall(text))
    body = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    faults = []
    if fields.get("input") != digest_of_text(input_text):
        faults.append("its input has changed since it was written")
    if fields.get("content") != digest_of_text(body):
        faults.append("it was edited by hand")
    return faults + _faults_of_pins(lock)


def _faults_of_pins(lock: Path) -> list[str]:
    try:
        bare = [str(pin.requirement) for pin in read_pins(lock) if not pin.hashes]
    except InvalidRequirement as error:
        return [f"a line of it is not a requirement: {str(error).splitlines()[0]}"]
    return [f"these packages have no hash: {', '.join(bare)}"] if bare else []


def read_pins(lock: Path) -> tuple[Pin, ...]:
    """Return every package of a lock, for all platforms and Pythons.

    Raises:
        OSError: it can't be read.
        InvalidRequirement: a line is no requirement.
    """
    return parse_pins(read_text(lock, limit=limits.LOCK, errors="replace"))


def parse_pins(text: str) -> tuple[Pin, ...]:
    """Return every package of a lock's text.

    Installers read a lock too, and accept more in it, such as an option that names another index
    or an address of another file. A lock may have none of these.

    Raises:
        InvalidRequirement: a line is no requirement, or more than one with its hashes.
    """
    return tuple(_parse_pin(line) for line in _join_lines(text) if line)


def _join_lines(text: str) -> Iterator[str]:
    """Yield lines joined at backslashes; a comment is left out, and ends the line before it.

    pip reads them likewise (`pip._internal.req.req_file`): a comment's backslash joins nothing.
    """
    pending = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("#"):
            yield pending.strip()
            pending = ""
        elif line.endswith("\\"):
            pending += f"{line[:-1]} "
        else:
            yield f"{pending}{line}".strip()
            pending = ""
    yield pending.strip()


def _parse_pin(line: str) -> Pin:
    match = _PIN.fullmatch(line)
    if match is None:
        raise InvalidRequirement(f"more than a package with its hashes: {line}")
    try:
        requirement = Requirement(match[1])
    except RecursionError:
        raise InvalidRequirement(f"brackets nest too deeply: {line[:_SHOWN]}…") from None
    if requirement.url:
        raise InvalidRequirement(f"a URL instead of a version: {line}")
    if _EXACT.fullmatch(str(requirement.specifier)) is None:
        raise InvalidRequirement(f"not a single version: {line}")
    return Pin(requirement=requirement, hashes=tuple(_HASH.findall(line)))


def pins_for(lock: Path, version: str, machine: str) -> str:
    """Return the pins of a lock that one Python installs, one a line, in order.

    Header, comments, order, spelling and pins for other machines make no difference to what is
    installed, so they make none here.

    Args:
        version: of CPython, `3.12.1`.
        machine: as `uname -m` prints it.

    Raises:
        OSError: it can't be read.
        InvalidRequirement: a line is no requirement.
    """
    environment = {
        "implementation_name": "cpython",
        "implementation_version": version,
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "python_full_version": version,
        "python_version": ".".join(version.split(".")[:2]),
    }  # on top of this machine's, which is Linux too
    lines = {
        " ".join((_without_marker(pin.requirement), *sorted(pin.hashes)))
        for pin in read_pins(lock)
        if pin.requirement.marker is None or pin.requirement.marker.evaluate(environment)
    }
    return "\n".join(sorted(lines))


def _without_marker(requirement: Requirement) -> str:
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    name = canonicalize_name(requirement.name)
    return f"{name}{extras}{requirement.specifier}"


def check_pins(lock: Path) -> None:
    """Check that a lock holds nothing but packages with hashes, before an installer reads it.

    Raises:
        LockError: it holds more.
        OSError: it can't be read.
    """
    if faults := _faults_of_pins(lock):
        raise LockError(
            f"{lock} is not a valid lock",
            why="; ".join(faults),
            fix="write it again with `nox -s lock`",
        )


def pinned_version(lock: Path, name: str) -> str | None:
    """Return the version that a lock pins for a package; None where it doesn't hold the package."""
    try:
        pins = read_pins(lock)
    except (OSError, InvalidRequirement):
        return None
    return next((pin.version for pin in pins if pin.requirement.name == name), None)


def cuda_of_lock(lock: Path) -> str:
    """Return the CUDA release of a lock's framework, `13.2`; empty where it isn't known."""
    pinned = (pinned_version(lock, name) for name in _CUDA_PACKAGES)
    return next((".".join(version.split(".")[:2]) for version in pinned if version), "")


def pythons_of_lock(lock: Path) -> tuple[str, ...]:
    """Return the Pythons that a lock's framework has wheels for; empty where it isn't known."""
    if not lock.is_file():
        return ()
    line = _PYTHONS.search(read_text(lock, limit=limits.LOCK, errors="replace"))
    return tuple(line[1].split()) if line else ()


def digest_of_text(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
