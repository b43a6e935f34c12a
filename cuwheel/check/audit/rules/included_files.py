"""A rule for the headers of CUDA code that a package compiles when it runs."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath

from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, finding

# In Python code: PyTorch's extensions, NVRTC, CuPy, PyCUDA, nvcc.
_COMPILES = re.compile(rb"\bcpp_extension\b|nvrtc|RawModule|RawKernel|SourceModule|\bnvcc\b")
# No header of the toolkit's or PyTorch's has such a name in its own folder; of others no more than
# the wheel's folders is known.
_OWN = (".cuh", ".cu", ".inl")


def include_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield files that compiled sources include, and that the wheel doesn't have.

    A header that Python code names may be written by it.
    """
    texts = [text for text in case.scan.sources.values() if _COMPILES.search(text)]
    if not texts or not case.scan.includes:
        return
    code = b"\n".join(texts)
    queue = dict.fromkeys(name for name in case.scan.includes if _is_named(name, code))
    members: dict[str, list[str]] = defaultdict(list)
    for name in case.scan.names:
        members[PurePosixPath(name).name].append(name)
    folders = {posixpath.dirname(name) for name in case.scan.names}
    done: set[str] = set()
    while queue:
        source, _ = queue.popitem()
        done.add(source)
        for included in case.scan.includes.get(source, ()):
            there = _members_for(source, included, members[PurePosixPath(included).name])
            queue |= dict.fromkeys(name for name in there if name not in done)
            if not there and _is_own(source, included, folders) and not _is_named(included, code):
                fact = f"it includes {included}, which isn't in the wheel, and is compiled when the"
                yield finding(source, "Python code", f"{fact} package runs", "warning")


def _is_named(name: str, code: bytes) -> bool:
    return PurePosixPath(name).name.encode() in code


def _members_for(source: str, included: str, members: list[str]) -> list[str]:
    """Return the members that an include may mean: from its own folder, or from any other."""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(source), included))
    if beside in members:
        return [beside]
    end = "/" + re.sub(r"^(\.\./|\./)+", "", included)
    return [name for name in members if f"/{name}".endswith(end)]


def _is_own(source: str, included: str, folders: set[str]) -> bool:
    """Return True for a file that no other project has: by its name, or its folder here."""
    folder, _, file = included.rpartition("/")
    if not folder:
        return file.endswith(_OWN)
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), folder)) in folders
