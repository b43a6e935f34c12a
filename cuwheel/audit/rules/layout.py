"""Rules for where a wheel's files lie: copies of one library, and what isn't the package's own."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cuwheel.audit.findings import Finding
from cuwheel.system.quantities import plural, show_size
from cuwheel.wheel.metadata import installed_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.audit.case import Case


# What CMake and make install into a prefix, and what packages have beside their code. As a folder
# of site-packages each belongs to every wheel that has it, and to none; but `build/` is that of the
# project `build`.
_SHARED = frozenset(
    {"bin", "build", "cmake", "data", "dist", "doc", "docs", "env", "etc", "example", "examples"}
    | {"include", "lib", "lib32", "lib64", "libexec", "man", "sbin", "scripts", "share", "src"}
    | {"test", "tests", "venv", ".eggs", ".git", ".github"}
)
_NOBODYS = frozenset({"__init__.py", "conftest.py", "setup.py", "test.py", "tests.py"})
_OWN_FILES = frozenset({".py", ".pyi", ".pth", ".so", ".pyd", ".dll", ".dylib"})
_CACHED = re.compile(r"(.*/)?__pycache__/[^/]+\.pyc")
_SHOWN = 6  # names in one finding


def layout_findings(case: Case) -> Iterator[Finding]:
    """What lies in the wrong place, or several times."""
    yield from _copy_findings(case)
    yield from _top_level_findings(case)
    yield from _byte_code_findings(case)
    yield from _data_findings(case)


def _copy_findings(case: Case) -> Iterator[Finding]:
    """Files of the same bytes: a wheel holds no links, so each link became a copy."""
    copies: dict[str, list[str]] = defaultdict(list)
    for library in case.scan.libraries:
        copies[case.scan.contents[library.name].digest].append(library.name)
    for names in copies.values():
        first, *others = sorted(names)
        if others:
            wasted = case.scan.contents[first].size * len(others)
            fact = (
                f"the same content is in the wheel {len(names)} times, {show_size(wasted)} more "
                f"than needed when unpacked: also as {_some(others)}"
            )
            yield Finding(file=first, rule="library copies", fact=fact, severity="warning")


def _top_level_findings(case: Case) -> Iterator[Finding]:
    """What lands in site-packages itself, beside what other wheels put there."""
    folders: dict[str, list[str]] = defaultdict(list)
    for name in case.scan.names:
        path = installed_path(name) if ".data/" in name else name
        first, slash, _ = str(path or "").partition("/")
        if not first or first == case.scan.dist_info:
            continue
        if slash and first in _SHARED and canonicalize_name(first) != case.project:
            folders[f"{first}/"].append(name)
        elif not slash and (first in _NOBODYS or PurePosixPath(first).suffix not in _OWN_FILES):
            folders[first].append(name)
    for place, names in sorted(folders.items()):
        size = show_size(sum(case.scan.contents[name].size for name in names))
        what = f"{plural(len(names), 'file')}, {size}" if place.endswith("/") else size
        fact = f"{what}: installed directly into site-packages, among other packages' files"
        yield Finding(file=place, rule="top level", fact=fact, severity="warning")


def _byte_code_findings(case: Case) -> Iterator[Finding]:
    """What Python compiled while the wheel was built; without its source it is the package."""
    found = [name for name in case.scan.names if _CACHED.fullmatch(name)]
    if found:
        size = show_size(sum(case.scan.contents[name].size for name in found))
        fact = f"{plural(len(found), 'file')} of byte code, {size}: installers compile their own"
        yield Finding(file=found[0], rule="byte code", fact=fact, severity="warning")


def _data_findings(case: Case) -> Iterator[Finding]:
    """A `.data` folder of another name: some installers take it for a package, some don't."""
    own = f"{case.scan.dist_info.removesuffix('.dist-info')}.data"
    firsts = {name.partition("/")[0] for name in case.scan.names if ".data/" in name}
    for folder in sorted(firsts - {own}):
        if folder.endswith(".data"):
            fact = (
                f"the wheel's own folder is {own}: some installers put this one into site-packages"
            )
            yield Finding(file=folder, rule="archive", fact=fact)


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
