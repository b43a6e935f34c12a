"""Rules for the environment markers of requirements: comparisons that don't hold as meant.

The values: "Environment Markers" of the dependency specifiers' specification, and what Python's
`platform` and `sys` return.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice, product
from typing import NamedTuple

from packaging.markers import Marker

from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding

_COMPARISON = re.compile(r'\b(?P<name>[a-z_]+) (?P<op>[=!<>~]=?=?|in|not in) "(?P<value>[^"]*)"')
_LINUX_MACHINES = ("x86_64", "aarch64", "i686", "armv7l", "ppc64le", "s390x", "riscv64")


class _System(NamedTuple):
    """Values that belong together.

    Attributes:
        machines: as `platform.machine` names them there.
    """

    name: str
    platform: str
    os_name: str
    machines: tuple[str, ...]


_SYSTEMS = (
    _System("Linux", "linux", "posix", _LINUX_MACHINES),
    _System("Windows", "win32", "nt", ("AMD64", "ARM64", "x86")),
    _System("Darwin", "darwin", "posix", ("x86_64", "arm64")),
)
_PYTHONS = ("CPython", "PyPy")
_KNOWN = {
    "platform_system": frozenset(each.name for each in _SYSTEMS),
    "sys_platform": frozenset(each.platform for each in _SYSTEMS),
    "os_name": frozenset(each.os_name for each in _SYSTEMS),
    "platform_machine": frozenset(name for each in _SYSTEMS for name in each.machines),
    "platform_python_implementation": frozenset(_PYTHONS),
    "implementation_name": frozenset(map(str.lower, _PYTHONS)),
}
_VARIED = frozenset({"python_version", "python_full_version", "extra"})
_MAC = ("macos", "macosx", "osx", "mac")
_MEANT = {
    "platform_system": {"win32": "Windows", **dict.fromkeys(_MAC, "Darwin")},
    "sys_platform": {"windows": "win32", "win64": "win32", **dict.fromkeys(_MAC, "darwin")},
    "os_name": {"linux": "posix", "windows": "nt", "win32": "nt", "darwin": "posix"},
    "platform_machine": dict.fromkeys(("amd64", "x64", "x86-64"), "x86_64"),
}
_MINORS = range(8, 21)  # of Python 3 for which a requirement is checked
_ALL_PYTHONS = ["2.7.9", *(f"3.{minor}.9" for minor in range(21))]
_PATCHES = (0, 99)
_FULL = re.compile(r"\d+\.\d+\.[1-9]\d*")  # not `3.9.0` and `3.9.*`, which two parts equal
_FIRST = re.compile(r"(3\.\d+)(\.0)?")  # of a minor release: one patch release, which few have
_MOST = 200  # markers of one wheel that are checked
_Environment = dict[str, str]


def marker_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield comparisons that never hold, or always, where another value is meant."""
    faults: dict[tuple[str, Severity], list[str]] = {}
    for each in islice((each for each in case.requirements if each.marker), _MOST):
        if each.marker and (fault := _fault(each.marker, case)):
            faults.setdefault(fault, []).append(each.name)
    for (fact, severity), projects in faults.items():
        names = ", ".join(dict.fromkeys(projects))
        yield finding("METADATA", "metadata", f"in the marker of {names}, {fact}", severity)


def _fault(marker: Marker, case: AuditCase) -> tuple[str, Severity] | None:
    """Return what is wrong with a marker, and how bad that is."""
    text = str(marker)
    for match in _COMPARISON.finditer(text):
        right = _corrected(match)
        if right != match[0]:
            corrected = Marker(text[: match.start()] + right + text[match.end() :])
            environments = list(_environments(match["value"], text, case))
            pairs = {(_holds(marker, each), _holds(corrected, each)) for each in environments}
            if (False, True) in pairs:
                return f"{match[0]} isn't true where {right} is, as seems meant", "warning"
            if (True, False) in pairs:
                return f"{match[0]} is also true where {right} isn't, as seems meant", "note"
    if _is_never(marker, text):
        return f"{text} is true on no system", "warning"
    return None


def _corrected(match: re.Match[str]) -> str:
    """Return the comparison that is meant; often the same."""
    name, op, value = match["name"], match["op"], match["value"]
    if name == "python_full_version" and op == "==" and (minor := _FIRST.fullmatch(value)):
        return f'python_version == "{minor[1]}"'
    if name == "python_version" and _FULL.fullmatch(value):
        return f'python_full_version {op} "{value}"'
    known = _KNOWN.get(name, frozenset())
    if value in known or op not in ("==", "!=", "==="):
        return match[0]
    meant = {**{each.lower(): each for each in known}, **_MEANT.get(name, {})}
    return f'{name} {op} "{meant.get(value.lower(), value)}"'


def _environments(value: str, text: str, case: AuditCase) -> Iterator[_Environment]:
    """Yield environments of the tags and of Requires-Python, also with a Python of this release."""
    oldest, newest = case.oldest_python or _MINORS[0], case.newest_python
    minors = [n for n in _MINORS if oldest <= n <= newest]
    fulls = [f"3.{n}.{patch}" for n in minors for patch in _PATCHES]
    fulls += [value] if any(value.startswith(f"3.{n}.") for n in minors) else []
    is_for_all = not case.tags or "any" in case.platforms
    return _combined(_SYSTEMS if is_for_all else _SYSTEMS[:1], fulls, text)


def _combined(systems: Iterable[_System], fulls: list[str], text: str) -> Iterator[_Environment]:
    """Yield environments that differ in what a marker asks for."""
    extras = ["", *re.findall(r'extra == "([^"]*)"', text)]
    versions = fulls if "python_" in text else fulls[-1:]
    pythons = _PYTHONS if "implementation" in text else _PYTHONS[:1]
    for system, full, python, extra in product(systems, versions, pythons, extras):
        for machine in system.machines:
            yield {
                "platform_system": system.name,
                "sys_platform": system.platform,
                "os_name": system.os_name,
                "platform_machine": machine,
                "platform_python_implementation": python,
                "implementation_name": python.lower(),
                "python_full_version": full,
                "python_version": ".".join(full.split(".")[:2]),
                "extra": extra,
            }


def _holds(marker: Marker, environment: _Environment) -> bool:
    try:
        return marker.evaluate(environment)
    except ValueError:
        return True


def _is_never(marker: Marker, text: str) -> bool:
    """Return True if values contradict each other, as `arm64` and Linux, which says `aarch64`."""
    found = list(_COMPARISON.finditer(text))
    of_systems = [match for match in found if match["name"] in _KNOWN]
    is_known = all(match["value"] in _KNOWN[match["name"]] for match in of_systems)
    others = {match["name"] for match in found} - _KNOWN.keys() - _VARIED
    is_whole = len(found) == text.count('"') // 2
    if others or not is_known or not is_whole or len(of_systems) <= 1:
        return False
    return not any(_holds(marker, each) for each in _combined(_SYSTEMS, _ALL_PYTHONS, text))
