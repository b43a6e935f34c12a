"""Rules for CUDA sources that a wheel compiles when it is used, by NVRTC or nvcc."""

from __future__ import annotations

import ast
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath

from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, finding
from cuwheel.check.audit.python_code import full_name, imported_names, names_of
from cuwheel.check.audit.rules.python.values import name_of
from cuwheel.check.audit.scan import TEXTURE, TEXTURES
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
# CUDA majors: the first without texture references, and the first without their headers.
_WITHOUT = {TEXTURES: 12}
_WITHOUT_HEADERS = 13
# Constructors that compile a source: of CuPy, which looks names of kernels up as they are
# compiled, and of PyCUDA, which puts a source into `extern "C"` itself.
_COMPILERS = re.compile(r"(cupy|pycuda)(\.\w+)*\.(RawKernel|RawModule|SourceModule)")
# Comments, texts and characters; a digit's `'` separates thousands.
_NO_CODE = re.compile(
    r"//(?:\\\n|[^\n])*|/\*.*?\*/|(\bextern\s+\"C\")|R\"(\w*)\(.*?\)\2\"|\"(?:\\.|[^\"\\\n])*\""
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
# What may have another part of a bracket, or make names.
_PREPROCESSED = re.compile(r"^[ \t]*#[ \t]*(if|else|elif|define|include[ \t]*\")|##", re.MULTILINE)
_PAIRS = {")": "(", "]": "[", "}": "{"}
_KERNEL_NAME = re.compile(r"(?!_Z)[A-Za-z_]\w*")


def jit_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield what code in CUDA that is compiled when the package runs lacks, or nvcc refuses."""
    yield from _include_findings(case)
    yield from _flag_findings(case)
    for member in (*case.code.run, *case.code.rest):
        if _RUNS_COMPILER.search(case.code.sources[member]):
            yield from _Sources(case, member).findings()


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
            if included in GONE_HEADERS or included == TEXTURES:
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


def _gone_findings(source: str, name: str, case: AuditCase) -> Iterator[AuditFinding]:
    first = _WITHOUT.get(name, _WITHOUT_HEADERS)
    if _cuda_of(case) >= first:
        verb = "uses" if name == TEXTURES else "includes"
        fact = f"it {verb} {name}, which CUDA {first} doesn't have any more, and is compiled when "
        yield finding(source, _RULE, f"{fact}the package runs", "warning")


def _flag_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield archs that the nvcc of the named CUDA refuses, in options of what code compiles."""
    major = _cuda_of(case)
    known = {arch for toolkit in TOOLKITS if toolkit.major == major for arch in toolkit.archs}
    for member in (*case.code.run, *case.code.rest) if known else ():
        source = case.code.sources[member]
        if not _RUNS_COMPILER.search(source) or _ASKS_CUDA.search(source):
            continue
        archs = dict.fromkeys(match.decode() for match in _ARCH_FLAG.findall(source))
        if wrong := [arch for arch in archs if arch not in known and int(arch) < int(min(known))]:
            fact = f"it compiles with sm_{', sm_'.join(wrong)}, which the nvcc of CUDA {major} "
            yield finding(member, _RULE, f"{fact}refuses", "warning")


class _Sources:
    """The constant sources that a module compiles with CuPy or PyCUDA."""

    def __init__(self, case: AuditCase, member: str) -> None:
        self._case, self._member = case, member
        nodes = list(case.code.nodes(member))
        self._names = imported_names(nodes)
        self._calls = [node for node in nodes if isinstance(node, ast.Call)]
        bound = [name for node in nodes for name in names_of(node)]
        bound += [node.arg for node in nodes if isinstance(node, ast.arg)]
        once = {name for name, count in Counter(bound).items() if count == 1}
        self._values = {
            target.id: node.value
            for node in nodes
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and target.id in once
        }

    def findings(self) -> Iterator[AuditFinding]:
        """Yield sources that don't compile, and kernels that these don't define."""
        done: set[str] = set()
        for call in self._calls:
            if not (kind := self._kind(call)):
                continue
            words = {word.arg: word.value for word in call.keywords}
            source = self._text(words.get("code", call.args[0] if call.args else None))
            code = _without_texts(source or "")
            if not code:
                continue
            start = f"line {call.lineno}"
            if (bracket := _unclosed(code)) and code not in done:
                fact = f"{start} compiles a source with an unpaired {bracket}: it doesn't compile"
                yield finding(self._member, _RULE, fact, "warning")
            if TEXTURE.search(code.encode()) and _cuda_of(self._case) >= _WITHOUT[TEXTURES]:
                fact = f"{start} compiles a source with {TEXTURES}, which CUDA {_WITHOUT[TEXTURES]}"
                yield finding(self._member, _RULE, f"{fact} doesn't have any more", "warning")
            done.add(code)
            if not {"name_expressions", "jitify", None} & words.keys():
                yield from self._name_findings(call, kind, code)

    def _name_findings(self, call: ast.Call, kind: str, code: str) -> Iterator[AuditFinding]:
        """Yield kernels that are looked up by a name which the compiled code doesn't have."""
        if _PREPROCESSED.search(code) and re.search(r"##|include[ \t]*\"", code):
            return
        for line, name in self._asked(call, kind):
            fact = f"line {line} takes the kernel {name} of a source that "
            word = re.escape(name)
            if not re.search(rf"\b{word}\b", code):
                yield finding(self._member, _RULE, f"{fact}doesn't define it", "warning")
            is_plain = re.search(rf"__global__\b[^;{{}}]*?\b{word}\s*\(", code)
            if is_plain and kind.startswith("cupy") and 'extern "C"' not in code:
                fact += 'defines it without extern "C": the compiled name is another'
                yield finding(self._member, _RULE, fact, "warning")

    def _asked(self, call: ast.Call, kind: str) -> Iterator[tuple[int, str]]:
        """Yield the names of kernels that are taken of a source, and the lines."""
        words = {word.arg: word.value for word in call.keywords}
        if kind.endswith("RawKernel"):
            asked = [(call, words.get("name", call.args[1] if len(call.args) > 1 else None))]
        else:
            owners = {name for name, value in self._values.items() if value is call}
            asked = [
                (user, user.args[0])
                for user in self._calls
                if isinstance(user.func, ast.Attribute)
                and user.func.attr == "get_function"
                and len(user.args) == 1
                and (user.func.value is call or getattr(user.func.value, "id", "") in owners)
            ]
        for user, node in asked:
            name = self._text(node)
            if name and _KERNEL_NAME.fullmatch(name):
                yield user.lineno, name

    def _kind(self, call: ast.Call) -> str:
        if name_of(call.func) not in {"RawKernel", "RawModule", "SourceModule"}:
            return ""
        name = full_name(call.func, self._names)
        return name if _COMPILERS.fullmatch(name) else ""

    def _text(self, node: ast.expr | None) -> str | None:
        """Return a text that is the same whenever the code runs."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Name) and node.id in self._values:
            value = self._values[node.id]
            return None if isinstance(value, ast.Name) else self._text(value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = (self._text(node.left), self._text(node.right))
            return None if None in parts else "".join(map(str, parts))
        return None


def _cuda_of(case: AuditCase) -> int:
    """Return the CUDA major that a wheel's name has, or its newest library; 0: neither."""
    return case.named_cuda or max(case.cuda, default=0)


def _without_texts(source: str) -> str:
    """Return a source without comments, texts and characters; `extern "C"` stays."""
    return _NO_CODE.sub(lambda match: match[1] or " ", source)


def _unclosed(code: str) -> str:
    """Return the first bracket without another; empty: there is none, or that isn't sure."""
    if _PREPROCESSED.search(code):
        return ""
    opened: list[str] = []
    for char in code:
        if char in "([{":
            opened.append(char)
        elif char in _PAIRS and (not opened or opened.pop() != _PAIRS[char]):
            return char
    return opened[-1] if opened else ""


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
