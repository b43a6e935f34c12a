"""What somebody else has published: a wheel, or the provenance beside one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuwheel import limits
from cuwheel.binaries.archs import is_arch
from cuwheel.errors import UnsafeArchiveError, UsageError
from cuwheel.model.platform import PLATFORMS, Platform
from cuwheel.system.files import sha256_of_file
from cuwheel.system.regular_files import read_regular
from cuwheel.wheel.archive import open_wheel
from cuwheel.wheel.publication import build_tag_of, statement_of


@dataclass(frozen=True, kw_only=True)
class PublishedWheel:
    """What somebody else has published.

    Attributes:
        named: the file that was named: a wheel, or the statement beside one.
        sha256: of their wheel.
        wheel: it; None where there is only the statement.
        statement: the in-toto statement; empty where there is only the wheel.
    """

    named: Path
    sha256: str
    wheel: Path | None
    statement: dict[str, Any]

    @property
    def options(self) -> list[str]:
        """What a build's command line has to say to do the same."""
        parameters = self.parameters
        words = [word for arch in parameters.get("archs", ()) for word in ("--arch", arch)]
        for name, option in _OPTIONS.items():
            words += [option, parameters[name]] if parameters.get(name) else []
        return words

    @property
    def foreign_platform(self) -> Platform | None:
        """Of the machines that it is for, where this one is of another kind; else None."""
        platform = PLATFORMS.get(self.parameters.get("platform", ""))
        return platform if platform and platform.is_foreign else None

    @property
    def wheel_name(self) -> str:
        """Its file name."""
        stated = [one["name"] for one in self.statement.get("subject", ())]
        return self.wheel.name if self.wheel else str(stated[0])

    @property
    def statement_file(self) -> Path:
        """Where the statement lies, if there is one."""
        return statement_of(self.named) if self.named == self.wheel else self.named

    @property
    def build_tag(self) -> int:
        """The number in its file name; 0: it has none."""
        return build_tag_of(self.wheel_name)

    @property
    def parameters(self) -> dict[str, Any]:
        """What was requested, as `provenance` states it; empty without a statement."""
        return dict(self._definition.get("externalParameters", {}))

    @property
    def materials(self) -> dict[str, str]:
        """Name of each thing that went in, and its hash or version."""
        found = {}
        for one in self._definition.get("resolvedDependencies", ()):
            digest = one.get("digest", {}).get("sha256", "")
            version = one.get("annotations", {}).get("version", "")
            found[one["name"]] = f"{version} {digest[:_SHA256_SHOWN]}".strip()
        return found

    @property
    def hashes(self) -> dict[str, str]:
        """Name and SHA-256 of each thing that went in and has one."""
        dependencies = self._definition.get("resolvedDependencies", ())
        digests = {one["name"]: one.get("digest", {}).get("sha256", "") for one in dependencies}
        return {name: digest for name, digest in digests.items() if digest}

    @property
    def commit(self) -> str:
        """Of cuwheel's checkout, 40 hexadecimal digits; empty where none is stated."""
        for one in self._definition.get("resolvedDependencies", ()):
            if one["name"] == "checkout of cuwheel":
                return str(one.get("digest", {}).get("gitCommit", ""))
        return ""

    @property
    def _definition(self) -> dict[str, Any]:
        return dict(self.statement.get("predicate", {}).get("buildDefinition", {}))


def read_published(path: Path, option: str = "--against ") -> PublishedWheel:
    """Read what `--against` names: a wheel, or the provenance of one.

    Args:
        path: of the file.
        option: that named it, for messages.

    Raises:
        UsageError: it is neither, or wheel and provenance are not of each other.
    """
    try:
        if path.suffix == ".whl":
            beside = path.with_name(f"{path.name}.provenance.json")
            stated = _read_json(beside) if beside.is_file() else {}
            with open_wheel(path):  # before an hour of building
                pass
            found = PublishedWheel(
                named=path, sha256=sha256_of_file(path), wheel=path, statement=stated
            )
        else:
            found = _of_statement(path)
        _check_statement(found)
    except FileNotFoundError as problem:
        raise UsageError(
            f"{option}{path} does not exist",
            why="there is no such file, relative to the folder in which nox was started",
            fix="give an existing .whl, or the .provenance.json beside one",
        ) from problem
    except UnsafeArchiveError as problem:
        raise UsageError(
            f"{option}{path} can't be read as a wheel",
            why=problem.why,
            fix="get the file again from its publisher",
        ) from problem
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise UsageError(
            f"{option}{path} is neither a wheel nor the provenance of one",
            why=f"it has no {problem}" if isinstance(problem, KeyError) else str(problem),
            fix="give a .whl, or the .provenance.json that cuwheel writes beside it",
        ) from problem
    return found


def check_is_of(theirs: PublishedWheel, recipe: str, tag: str) -> None:
    """See that what was published is of the session's recipe and toolkit.

    Raises:
        UsageError: it is of another one.
    """
    parameters = theirs.parameters
    stated = (parameters.get("recipe", recipe), parameters.get("toolkit", tag).replace(".", ""))
    if stated != (recipe, tag):
        raise UsageError(
            f"{theirs.named.name} is not a wheel of {recipe} for toolkit {tag}",
            why=f"its provenance says {stated[0]}, toolkit {stated[1]}",
            fix=f"nox -s verify -- {stated[0]}-{stated[1]} --against {theirs.named}",
        )


def _read_json(path: Path) -> Any:
    return json.loads(read_regular(path, limit=limits.JSON))


def _of_statement(path: Path) -> PublishedWheel:
    stated = _read_json(path)
    [subject] = stated["subject"]
    beside = path.with_name(Path(subject["name"]).name)
    return PublishedWheel(
        named=path,
        sha256=subject["digest"]["sha256"],
        wheel=beside if beside.is_file() else None,
        statement=stated,
    )


def _check_statement(found: PublishedWheel) -> None:
    """What a statement says becomes a command line, so everything in it is checked.

    Raises:
        ValueError: it isn't one of ours, or isn't of this wheel.
        TypeError: a value is of another kind.
    """
    for name in (*_OPTIONS, "recipe", "toolkit"):
        value = found.parameters.get(name, "")
        if not isinstance(value, str) or value.startswith("-") or "/" in value:
            raise ValueError(f"its {name} is {value!r}")
    if not isinstance(container := found.parameters.get("container", ""), str):
        raise TypeError(f"its container is {container!r}")
    archs = found.parameters.get("archs", [])
    if not isinstance(archs, list):
        raise TypeError(f"its archs are {archs!r}")
    for arch in archs:
        if not is_arch(arch):
            raise ValueError(f"one of its archs is {arch!r}")
    _ = found.materials, found.build_tag, found.hashes
    if found.commit and not _COMMIT.fullmatch(found.commit):
        raise ValueError(f"its checkout is {found.commit!r}")
    if found.wheel and found.statement:
        [subject] = found.statement["subject"]
        if sha256_of_file(found.wheel) != subject["digest"]["sha256"]:
            raise ValueError(f"{found.wheel.name} is not the wheel that the provenance describes")


_SHA256_SHOWN = 16  # characters of a hash
_COMMIT = re.compile(r"[0-9a-f]{40}")
_OPTIONS = {
    "python": "--python",
    "framework": "--framework",
    "link": "--link",
    "provider": "--toolchain",
    "platform": "--platform",
}
