"""Rules for requirements, version and description against each other and the wheel's content."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from packaging.metadata import parse_email
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from cuwheel.base.formats.binaries.archs import DeviceCode, describe_code, runs_on
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.installed_projects import FOR_CUDA, package_of
from cuwheel.check.audit.rules.library import device_codes
from cuwheel.check.audit.scan import join_codes
from cuwheel.check.audit.supply import Chain
from cuwheel.check.audit.symbols import SymbolNeeds
from cuwheel.check.cuda.components import KNOWN_COMPONENTS, Component
from cuwheel.check.cuda.drivers import is_before, release_of_ptx
from cuwheel.check.cuda.frameworks import extras_of, has_common_release, is_known

_FILE = "METADATA"
_TORCH = re.compile(r"(?:torch|pt)(\d)\.?(\d{1,2})(?!\d)")  # in `+cu128torch2.6`, `+pt26`
_CLAIMED = re.compile(r"(?<=[+._])sm_?([1-9]\d{1,2}[af]?)(?=[._]|-|$)")
_NEWER = r"(?:or|and) (?:newer|later|higher|above|up)|\+"
_NUMBER = r"([3-9]\d\d)(?:\.\d+)*"
# `driver 525 or newer`, `driver version >= 525.60.13`; three digits since 304.
_DRIVER = re.compile(
    rf"driver[^.\n]{{0,30}}?\b{_NUMBER} ?(?:{_NEWER})"
    rf"|driver[^.\n]{{0,30}}?(?:>=|≥|at least) ?{_NUMBER}\b",
    re.IGNORECASE,
)
_CUDA = re.compile(r"(?i)\bcuda[ -]?(1[1-9])\b")
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

# Sentences that state which GPUs are supported, and words that take such a statement back.
_SUPPORTS = re.compile(
    r"\bsupported (?:\w+ )?(?:gpus?|hardware|devices|archs|architectures)\b"
    r"|\b(?:runs?|works?) on\b|\btested (?:\w+ )?on\b"
    r"|\bsupports? (?:nvidia |compute |all |both |the )*(?:gpus?|capabilit|rtx"
    r"|[abhv]\d00|gb?200|ampere|hopper|blackwell|volta|sm_)",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"\b(?:not?|never|cannot|except|only|without|unless|until|before|dropp?e?d?|drops|deprecated"
    r"|removed|older|planned|plans?|will|soon|future|todo|roadmap|experimental|fall(?:s|ing)? ?back"
    r"|slow(?:er)?|from source|build|compil\w+|benchmarks?|rocm|amd|jit|triton)\b|n't\b|[✗✘❌]",
    re.IGNORECASE,
)
_GPUS = {
    **dict.fromkeys(("A100", "A30"), "80"),
    **dict.fromkeys(("A40", "A6000", "RTX30"), "86"),
    **dict.fromkeys(("L40", "L40S", "RTX40"), "89"),
    **dict.fromkeys(("H100", "H200", "GH200"), "90"),
    **dict.fromkeys(("T4", "RTX20"), "75"),
    **dict.fromkeys(("B200", "GB200"), "100"),
    "V100": "70",
    "RTX50": "120",
    **dict.fromkeys(("B300", "GB300"), "103"),
}
_GPU = re.compile(
    r"\b(T4|A100|A30|A40|A6000|L40S?|V100|H100|G?H200|G?B[23]00|RTX ?[2-5]0(?=[5-9]0))"
    r"(?:[5-9]0)?\b|\bsm_(\d{2,3})\b"
)
_CAPABILITIES = re.compile(
    r"compute capabilit(?:y|ies):? "
    r"(\d{1,2}\.\d(?:(?:, | or | and |, or |, and |/)\d{1,2}\.\d)*)(?!\d)",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+(?=\s*[-*#|\d]|\s*\n)|\n\n+")


def conflict_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield requirements of which one overwrites, or breaks, what another installs."""
    yield from _overwriting_findings(chain.case)
    yield from _unlimited_findings(chain)
    yield from _other_cuda_findings(chain)


def _overwriting_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield two required projects with the same files."""
    owners: dict[str, str] = {}
    for project in sorted(_installed(case)):
        first = {owners[path]: path for path in sorted(_paths_of(project)) if path in owners}
        for other, path in first.items():
            fact = f"{other} and {project}, which are both required, install {path}: the one that "
            yield finding(_FILE, "metadata", f"{fact}is installed last overwrites the other")
        owners = {**dict.fromkeys(_paths_of(project), project), **owners}


def _installed(case: AuditCase) -> set[str]:
    """Return the required projects, and those that these bring in every allowed release."""
    sure = set(case.required)
    brought = [dep for dep in case.declared if not dep.extra]
    for by in {dep.by for dep in brought}:
        ours = [dep for dep in brought if dep.by == by]
        if len({dep.cuda for dep in ours if dep.cuda}) <= 1:
            sure |= {dep.distribution for dep in ours}
    return sure


@cache
def _paths_of(project: str) -> frozenset[str]:
    """Return the files of a wheel of NVIDIA's, or the package of a project with several builds."""
    package = package_of(project)
    own = (part for part in KNOWN_COMPONENTS if part.distribution == project)
    files = {f"{part.site_folder}/{name}" for part in own for name in part.sonames}
    return frozenset(files | ({f"{package}/"} if package else set()))


def _unlimited_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield requirements that allow the next CUDA, with another soname.

    A project with the CUDA in its name never has it, and where another requirement brings the
    library, that one decides.
    """
    case, done = chain.case, set[str]()
    for library, elf in case.host_libraries if not case.contract else ():
        for soname in elf.needed:
            part = chain.conditions.component(library, soname)
            if part is None or part.distribution in done or not _is_direct(part, case):
                continue
            done.add(part.distribution)
            if bound := _next_release(part):
                yield from _unlimited(part, bound, soname, case)


def _is_direct(part: Component, case: AuditCase) -> bool:
    brought = any(d.distribution == part.distribution != d.by for d in case.declared)
    return part.distribution in case.required and part.cuda is not None and not brought


def _next_release(part: Component) -> str:
    """Return the first release with other sonames, `14`; empty: it is another project's."""
    _, separator, bound = part.releases.partition("<")
    return bound if separator and not re.search(r"-cu\d+$", part.distribution) else ""


def _unlimited(part: Component, bound: str, soname: str, case: AuditCase) -> Iterator[AuditFinding]:
    named = part.distribution
    lines = [each for each in case.requirements if canonicalize_name(each.name) == named]
    allowed = [each.specifier for each in lines if "" in extras_of(each, case.markers)]
    newer = SpecifierSet(f">={bound}")
    right = SpecifierSet(part.releases)
    # A bare name is no statement about releases.
    if allowed and all(
        len(each) and has_common_release(newer, each) and has_common_release(right, each)
        for each in allowed
    ):
        fact = f"{lines[0].name}{allowed[0]} also allows {bound} and later, for another CUDA: its "
        fact += f"library isn't {soname}, which the wheel needs: require <{bound}"
        yield finding(_FILE, "needed library", fact, "note")  # there is none yet


def _other_cuda_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield requirements with another CUDA in their names than the libraries need."""
    case = chain.case
    needed = frozenset[int]().union(*case.majors.values())
    needed |= {lib.runtime_major for lib, _ in case.host_libraries if lib.runtime_major}
    is_known_cuda = len(needed) == 1 and not chain.conditions.has_alternatives
    for name in sorted(case.required):
        match = FOR_CUDA.fullmatch(name)
        # One with known needs has its finding where these are checked.
        is_other = match and not (is_known(name) and "cupy" not in name)
        if match and is_other and is_known_cuda and int(match["major"]) not in needed:
            fact = f"{name} is required, which is for CUDA {match['major']}, but the wheel's "
            fact += f"libraries are for CUDA {min(needed)}"
            severity: Severity = "error" if case.contract else "warning"
            yield finding(_FILE, "mixed CUDA majors", fact, severity)


def claim_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield releases, drivers and GPUs that are stated, and contradicted by the wheel's content."""
    yield from _torch_findings(case)
    yield from _named_cuda_findings(case)
    yield from _version_findings(case)
    yield from _description_findings(case)
    if not case.contract:
        yield from _arch_findings(case)


def _torch_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a PyTorch in the version that the requirement excludes."""
    version, required = _version(case), SymbolNeeds(case=case).torch_requirement
    match = _TORCH.search((version and version.local) or "")
    if match and required and case.project != "torch":
        minor = f"{match[1]}.{match[2]}"
        if not has_common_release(SpecifierSet(f"=={minor}.*"), required):
            fact = f"its version {version} is for torch {minor}, but torch{required} is required"
            yield finding(_FILE, "metadata", fact, "warning")


def _named_cuda_findings(case: AuditCase) -> Iterator[AuditFinding]:
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
    top = case.project.replace("-", "_")
    modules = (top, f"{top}._version", f"{top}.version")
    members = [case.code.modules.get(module, "") for module in modules if stated]
    for member, node in ((each, node) for each in members for node in case.code.statements(each)):
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
    code = join_codes(code for _, code in device_codes(case))
    needed = [driver for _, driver in case.drivers]
    least = min(needed, key=lambda driver: int(driver.partition(".")[0]), default="")
    newest = max(map(int, _THREE_DIGITS.findall(text)), default=0)
    # With several, as for each CUDA, one of them may be meant for this wheel.
    release = release_of_ptx(code.ptx_version) if code.ptx and not code.sass else ""
    if len(stated) == 1 and newest in stated and release and is_before(f"{newest}", release):
        fact = f"the description states driver {newest} or newer, its code is PTX alone, which only"
        yield finding(_FILE, "driver", f"{fact} drivers of CUDA {release} and newer run", "warning")
    elif len(stated) == 1 and least and newest < int(least.partition(".")[0]):
        fact = f"the description states driver {max(stated)} or newer, its code needs {least}"
        yield finding(_FILE, "driver", fact, "warning")
    if (code.sass or code.ptx) and not (code.lto or code.tile):
        yield from _supported_findings(text, code, case)
        promised = [_GENERATIONS[name.lower()] for name in _PROMISED.findall(text)]
        promised += ["".join(digits) for digits in _CAPABILITY.findall(text)]
        arch = max(promised, key=int, default="")  # older ones may be of other wheels
        fact = f"the description promises GPUs from {arch[:-1]}.{arch[-1:]} on, which don't run "
        if arch and not runs_on(code, arch):
            yield finding(_FILE, "archs", f"{fact}its code: {describe_code(code)}", "warning")
            return
        for name, part in device_codes(case) if arch else ():
            if (part.sass or part.ptx) and not runs_on(part, arch):
                yield finding(name, "archs", f"{fact}it: {describe_code(part)}", "note")


def _supported_findings(text: str, code: DeviceCode, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield GPUs that a sentence says are supported, and that don't run any of the code."""
    lacking: dict[str, str] = {}
    for sentence in _SENTENCE.split(text):
        majors = set(map(int, _CUDA.findall(sentence)))
        is_other = majors and majors.isdisjoint(case.cuda)  # of another build
        if is_other or not _SUPPORTS.search(sentence) or _TAKEN_BACK.search(sentence):
            continue
        gpus = list(_GPU.finditer(sentence))
        named = [(gpu[0], gpu[2] or _GPUS.get(gpu[1].replace(" ", ""), "")) for gpu in gpus]
        for numbers in _CAPABILITIES.findall(sentence):
            named += [(n, n.replace(".", "")) for n in re.findall(r"\d+\.\d", numbers)]
        lacking |= {name: arch for name, arch in named if arch and not runs_on(code, arch)}
    if lacking:
        names = ", ".join(dict.fromkeys(lacking))
        fact = f"the description says that {names} can be used, but no code runs there: "
        yield finding(_FILE, "archs", f"{fact}{describe_code(code)}", "warning")


def _arch_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield archs in the version, `+cu130.sm90`, for which no code runs."""
    code = join_codes(code for _, code in device_codes(case))
    for arch in _CLAIMED.findall(case.scan.dist_info) if code.sass or code.ptx else ():
        is_served = arch.isdecimal() and bool(runs_on(code, arch))
        if arch not in (*code.sass, *code.ptx) and not is_served:
            fact = f"its version says sm_{arch}, it contains {describe_code(code)}"
            yield finding(case.scan.file_name, "archs", fact, "warning")


def _version(case: AuditCase) -> Version | None:
    return _parsed(case.scan.dist_info.removesuffix(".dist-info").rpartition("-")[2])


def _parsed(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None
