"""Rules for CUDA sources that a wheel compiles when it is used, by NVRTC or nvcc."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath

from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, finding
from cuwheel.check.cuda.toolkits import GONE_HEADERS, TOOLKITS

_RULE = "Python code"
# In Python code: PyTorch's extensions, NVRTC, CuPy, PyCUDA, nvcc.
_RUNS_COMPILER = re.compile(rb"\bcpp_extension\b|nvrtc|RawModule|RawKernel|SourceModule|\bnvcc\b")
# No header of the toolkit's or PyTorch's has such a name in its own folder; of others no more than
# the wheel's folders is known.
_OWN_HEADERS = (".cuh", ".cu", ".inl")
_ARCH_FLAG = re.compile(
    rb"[\"' =,](?:arch=compute|-arch=sm|code=sm|--gpu-architecture=\w+)_(\d{2,3})\b"
)
_ASKS_CUDA = re.compile(rb"version\.cuda|(?i:cuda_version)|get_device_capability|runtimeGetV")
_WITHOUT_TEXTURES = 13  # CUDA major


def jit_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield what code in CUDA that is compiled when the package runs lacks, or nvcc refuses."""
    yield from _include_findings(case)
    yield from _flag_findings(case)


def _include_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield files that compiled sources include, and that the wheel doesn't have.

    A header that Python code names may be written by it.
    """
    texts = [text for text in case.scan.sources.values() if _RUNS_COMPILER.search(text)]
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
            if included in GONE_HEADERS:
                yield from _gone_findings(source, included, case)
                continue
            there = _members_for(source, included, members[PurePosixPath(included).name])
            queue |= dict.fromkeys(name for name in there if name not in done)
            if (
                not there
                and _is_own_header(source, included, folders)
                and not _is_named(included, code)
            ):
                fact = f"it includes {included}, which isn't in the wheel, and is compiled when the"
                yield finding(source, _RULE, f"{fact} package runs", "warning")


def _gone_findings(source: str, header: str, case: AuditCase) -> Iterator[AuditFinding]:
    if (case.named_cuda or max(case.cuda, default=0)) >= _WITHOUT_TEXTURES:
        fact = f"it includes {header}, which CUDA {_WITHOUT_TEXTURES} doesn't have any more, and is"
        yield finding(source, _RULE, f"{fact} compiled when the package runs", "warning")


def _flag_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield archs that the nvcc of the named CUDA refuses, in options of what code compiles."""
    major = case.named_cuda or max(case.cuda, default=0)
    known = {arch for toolkit in TOOLKITS if toolkit.major == major for arch in toolkit.archs}
    for member in (*case.code.run, *case.code.rest) if known else ():
        source = case.code.sources[member]
        if not _RUNS_COMPILER.search(source) or _ASKS_CUDA.search(source):
            continue
        archs = dict.fromkeys(match.decode() for match in _ARCH_FLAG.findall(source))
        if wrong := [arch for arch in archs if arch not in known and int(arch) < int(min(known))]:
            fact = f"it compiles with sm_{', sm_'.join(wrong)}, which the nvcc of CUDA {major} "
            yield finding(member, _RULE, f"{fact}refuses", "warning")


def _is_named(name: str, code: bytes) -> bool:
    return PurePosixPath(name).name.encode() in code


def _members_for(source: str, included: str, members: list[str]) -> list[str]:
    """Return the members that an include may mean: from its own folder, or from any other."""
    nearby = posixpath.normpath(posixpath.join(posixpath.dirname(source), included))
    if nearby in members:
        return [nearby]
    end = "/" + re.sub(r"^(\.\./|\./)+", "", included)
    return [name for name in members if f"/{name}".endswith(end)]


def _is_own_header(source: str, included: str, folders: set[str]) -> bool:
    """Return True for a file that no other project has: by its name, or its folder here."""
    folder, _, file = included.rpartition("/")
    if not folder:
        return file.endswith(_OWN_HEADERS)
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), folder)) in folders
