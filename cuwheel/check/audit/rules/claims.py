"""Rules for what a version, `__version__` and the description state, and the wheel doesn't keep."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from packaging.metadata import parse_email
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from cuwheel.base.formats.binaries.archs import describe_code, runs_on
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, finding
from cuwheel.check.audit.rules.library import device_codes
from cuwheel.check.audit.scan import join_codes
from cuwheel.check.audit.symbols import SymbolNeeds
from cuwheel.check.cuda.frameworks import has_common_release

_FILE = "METADATA"
_TORCH = re.compile(r"(?:torch|pt)(\d)\.?(\d{1,2})(?!\d)")  # in `+cu128torch2.6`, `+pt26`
_NEWER = r"(?:or|and) (?:newer|later|higher|above|up)|\+"
_NUMBER = r"([3-9]\d\d)(?:\.\d+)*"
# `driver 525 or newer`, `driver version >= 525.60.13`; three digits since 304.
_DRIVER = re.compile(
    rf"driver[^.\n]{{0,30}}?\b{_NUMBER} ?(?:{_NEWER})"
    rf"|driver[^.\n]{{0,30}}?(?:>=|≥|at least) ?{_NUMBER}\b",
    re.IGNORECASE,
)
_THREE_DIGITS = re.compile(r"(?<![\d.])[3-9]\d\d(?!\d)")
_GENERATIONS = {"volta": "70", "turing": "75", "ampere": "80", "ada": "89", "hopper": "90"}
_PROMISED = re.compile(
    rf"\b({'|'.join(_GENERATIONS)})(?: lovelace)?(?: gpus?| architectures?| generations?| cards?)*"
    rf",? (?:{_NEWER})",
    re.IGNORECASE,
)
_CAPABILITY = re.compile(
    rf"compute capability (?:of )?(?:>=|≥|at least)? ?(\d)\.(\d) ?(?:{_NEWER})"
    r"|compute capability (?:of )?(?:>=|≥|at least) ?(\d)\.(\d)",
    re.IGNORECASE,
)


def claim_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield releases, drivers and GPUs that are stated, and contradicted by the wheel's content."""
    yield from _torch_findings(case)
    yield from _cuda_findings(case)
    yield from _version_findings(case)
    yield from _description_findings(case)


def _torch_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a PyTorch in the version that the requirement excludes."""
    version, required = _version(case), SymbolNeeds(case=case).torch_requirement
    match = _TORCH.search((version and version.local) or "")
    if match and required and case.project != "torch":
        minor = f"{match[1]}.{match[2]}"
        if not has_common_release(SpecifierSet(f"=={minor}.*"), required):
            fact = f"its version {version} is for torch {minor}, but torch{required} is required"
            yield finding(_FILE, "metadata", fact, "warning")


def _cuda_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a name with one CUDA where only libraries of another are required.

    Its own libraries have findings of their own if they contradict the name.
    """
    named, needed = case.name_cuda, frozenset[int]().union(*case.majors.values())
    direct = [dep for dep in case.declared if dep.by == dep.distribution and not dep.extra]
    required = {dep.cuda for dep in direct if dep.cuda}
    if named and required and named not in required and needed <= {named} and not case.is_supplier:
        others = [dep for dep in direct if dep.cuda]
        fact = (
            f"the wheel's name has CUDA {named}, but it requires {others[0].distribution}, which "
        )
        fact += f"is for CUDA {others[0].cuda}"
        yield finding(_FILE, "mixed CUDA majors", fact, "warning")


def _version_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield another release in the package's `__version__` than the wheel's."""
    stated = _version(case)
    member = case.code.modules.get(case.project.replace("-", "_"), "")
    for node in case.code.statements(member) if stated else ():
        names = [getattr(target, "id", "") for target in getattr(node, "targets", ())]
        value = node.value if isinstance(node, ast.Assign) else None
        if "__version__" in names and isinstance(value, ast.Constant):
            written = _parsed(str(value.value))
            if written and stated and written.base_version != stated.base_version:
                fact = f"line {node.lineno}: __version__ is {written}, the wheel's is {stated}"
                yield finding(member, "name", fact, "note")


def _description_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield drivers and GPUs that the description promises, and that can't run the code."""
    raw, _ = parse_email(case.scan.metadata)
    text = raw.get("description") or ""
    stated = {int(first or second) for first, second in _DRIVER.findall(text)}
    needed = [driver for _, driver in case.drivers]
    least = min(needed, key=lambda driver: int(driver.partition(".")[0]), default="")
    newest = max(map(int, _THREE_DIGITS.findall(text)), default=0)
    # With several, as for each CUDA, one of them may be meant for this wheel.
    if len(stated) == 1 and least and newest < int(least.partition(".")[0]):
        fact = f"the description states driver {max(stated)} or newer, its code needs {least}"
        yield finding(_FILE, "driver", fact, "warning")
    code = join_codes(code for _, code in device_codes(case))
    if (code.sass or code.ptx) and not (code.lto or code.tile):
        promised = [_GENERATIONS[name.lower()] for name in _PROMISED.findall(text)]
        promised += ["".join(digits) for digits in _CAPABILITY.findall(text)]
        arch = max(promised, key=int, default="")  # older ones may be of other wheels
        if arch and not runs_on(code, arch):
            fact = f"the description promises GPUs from {arch[:-1]}.{arch[-1]} on, which don't "
            fact += f"run its code: {describe_code(code)}"
            yield finding(_FILE, "archs", fact, "warning")


def _version(case: AuditCase) -> Version | None:
    return _parsed(case.scan.dist_info.removesuffix(".dist-info").rpartition("-")[2])


def _parsed(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None
