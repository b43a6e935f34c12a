"""One line of an `environment.yml`: `channel::name version build`, of which the name is enough.

These are the forms of a match specification that people write, with the meaning that conda gives
them (conda's documentation, "Package match specifications").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ONE = r"[<>=!~]*[\w.+!*-]+"
_VERSION = rf"{_ONE}(?:[,|]{_ONE})*"
_LINE = re.compile(
    r"(?:(?P<channel>[\w.-]+)::)?(?P<name>[\w.-]+)"
    rf"(?:(?: +|(?=[<>=!~]))(?P<version>{_VERSION})(?: +(?P<build>[\w.*-]+))?)?"
)
_OPERATOR = re.compile(r"[<>=~*|,]")


@dataclass(frozen=True, kw_only=True)
class CondaDependency:
    """A package that an environment requires.

    Attributes:
        name: of the package, in lower case.
        version: constraint as conda keeps it: `1.0` for that release, `1.0.*`, `>=2,<3`; empty for
            any.
        build: build string or a pattern of it; empty for any.
        channel: the only channel that it may come from; empty for any.
    """

    name: str
    version: str = ""
    build: str = ""
    channel: str = ""

    @property
    def match_spec(self) -> str:
        """The spec that rattler gets for it; an exact version takes an operator there."""
        is_exact = self.version and not _OPERATOR.search(self.version)
        version = f"=={self.version}" if is_exact else self.version or "*" * bool(self.build)
        channel = f"{self.channel}::" if self.channel else ""
        return " ".join(filter(None, (f"{channel}{self.name}", version, self.build)))


def parse_dependency(line: str) -> CondaDependency:
    """Read one line of `dependencies`.

    Raises:
        ValueError: it is neither `name` nor `name` and a version (`==1.0`, `1.0.*`, `=1.0`,
            `>=1,<2`), with or without a channel before it and a build behind it.
    """
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise ValueError(line)
    build = found["build"] or ""
    return CondaDependency(
        name=found["name"].lower(),
        version=_normalized(found["version"] or "", has_build=bool(build)),
        build=build,
        channel=found["channel"] or "",
    )


def _normalized(version: str, *, has_build: bool) -> str:
    """`==1.0` is the release 1.0; `=1.0` any that starts so, or that one where a build follows."""
    if version.startswith("=="):
        return version if has_build else version[2:]
    if version.startswith("="):
        return version[1:] if has_build or version.endswith("*") else f"{version[1:]}.*"
    return version
