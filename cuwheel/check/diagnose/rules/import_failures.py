"""Failed imports: the entry about each, by its message."""

from __future__ import annotations

import linecache
import re
from typing import NamedTuple

from cuwheel.check.diagnose.facts.variables import VariableChange


class _Failure(NamedTuple):
    """A failed import, by its message."""

    pattern: str
    anchor: str
    fix: str = "reinstall it with everything that it requires"
    is_symptom: bool = False  # of other faults too


# The first that fits counts.
_FAILURES = (
    _Failure(
        r"undefined symbol: \w*nv[Jj]it[Ll]ink",
        "nvjitlink-mismatch",
        fix="an older libnvJitLink is loaded first: remove CUDA folders from LD_LIBRARY_PATH, "
        "or upgrade nvidia-nvjitlink",
    ),
    _Failure(
        r"undefined symbol: nccl",
        "nccl-version-mismatch",
        fix="another libnccl is loaded first: remove its folder from LD_LIBRARY_PATH, or "
        "install the nvidia-nccl that torch requires",
    ),
    _Failure(r"libcudart[\w.-]*: cannot open", "libcudart-not-found"),
    _Failure(r"libcudnn[\w.-]*: cannot open", "libcudnn-not-found"),
    _Failure(r"libnvrtc[\w.-]*: cannot open", "libnvrtc-missing"),
    _Failure(r"lib(cuda|nvidia-ml)\.so\.1: cannot open", "libcuda-driver-missing"),
    _Failure(r"lib(cu|nv|nccl)[\w.-]*: cannot open", "cuda-math-lib-not-found"),
    _Failure(
        r"(GLIBCXX|CXXABI)_[\d.]+.* not found|undefined symbol: .*version (GLIBCXX|CXXABI)_"
        r"|undefined symbol: (_ZN?K?St|__cxa_|_Zn[aw]|_Zd[al])",
        "glibcxx-too-old",
        fix="another libstdc++ is loaded first: remove its folder from LD_LIBRARY_PATH, or "
        "install a newer one",
    ),
    _Failure(
        r"GLIBC_[\d.]+.* not found",
        "glibc-too-old",
        fix="it was built for a newer system: install a release for this one",
    ),
    _Failure(
        r"numpy\.(dtype size|_?core\.multiarray failed)|_ARRAY_API|compiled using NumPy 1",
        "numpy-abi-mismatch",
        fix="install the NumPy that it was built for, usually one below 2",
        is_symptom=True,
    ),
    _Failure(
        r"undefined symbol: (_Z(T[VIST])?N?[VrK]*[RO]?(2at|3c10|5torch|6caffe2)|aoti_torch_)",
        "torch-abi-mismatch",
        fix="reinstall all packages that belong to it, together",
    ),
    _Failure(
        r"file too short|invalid ELF header|cannot read file data",
        "diagnose-damaged-installation",
        fix="reinstall the package that this file belongs to",
    ),
    _Failure(
        r"cuDNN version incompatib|Could not load (symbol cudnn|library libcudnn)",
        "cudnn-version-mismatch",
        fix="another cuDNN is loaded first: remove its folder from LD_LIBRARY_PATH",
    ),
    _Failure(
        r"Unknown flags? in XLA_FLAGS",
        "diagnose-variable",
        fix="remove the flag from XLA_FLAGS: this release of XLA doesn't have it",
    ),
)
_FRAME = re.compile(r'^\s*File "(.+)", line (\d+) in (\S+)$', re.MULTILINE)  # of faulthandler
_CALLS = 2
_STATUS = "it ended with status"  # of `describe_end`
_SHOWN = 300  # characters of a message
FIRST = "first fix what else this report says about it, then run this again"


def explain(failure: str, otherwise: str, remedy: str | None = None) -> tuple[str, str, str]:
    """Return the entry about a failure, its line that tells most, and the fix.

    Args:
        failure: a traceback, or what a process has printed; its last line is the exception.
        otherwise: the fix of a failure without an entry of its own.
        remedy: the command (may be empty) of a fault that is to be fixed first; None: none is.
    """
    exception = exception_in(failure)
    for entry in _FAILURES:
        for line in (exception, *failure.splitlines()):
            if re.search(entry.pattern, line) and (remedy is None or not entry.is_symptom):
                return entry.anchor, line.strip(), entry.fix if remedy is None else FIRST
    line = "; ".join(filter(None, (exception, crash_site(failure))))
    return "diagnose-import-failed", line, otherwise if remedy is None else FIRST


def crash_site(failure: str) -> str:
    """Return the calls, the deepest first, in which a signal has ended a process; else empty.

    faulthandler prints their lines.
    """
    if "ended with signal" not in exception_in(failure):
        return ""
    frames = [(path, int(line), name) for path, line, name in _FRAME.findall(failure)]
    texts = [linecache.getline(path, line).strip() for path, line, _ in frames[:_CALLS]]
    calls = " in ".join(f"`{text}`" for text in texts if text)
    path, line, _ = frames[0] if frames else ("", 0, "")
    return f"it was in {calls or 'a call'}, {path}, line {line}" if frames else ""


def explain_variable(
    failure: str, change: VariableChange, state: str = "it can be imported"
) -> tuple[str, str, str, str]:
    """Return entry, cause, fix and command of a failure that one variable causes.

    Args:
        change: with which it doesn't fail.
        state: what is so then.
    """
    anchor, line, _ = explain(failure, "")
    cause = f"{line}; without {change.text} {state}"
    if anchor in {"diagnose-import-failed", "numpy-abi-mismatch"}:  # which names no variable
        anchor = "diagnose-variable"
    return anchor, cause, change.advice, change.command


def exception_in(failure: str) -> str:
    """Return the exception of a failure, with the first one that led to it.

    A program that ends itself leaves a message before its status.
    """
    *before, last = failure.strip().splitlines()[-2:] or [""]
    message = before[0].strip()[:_SHOWN] if before and last.startswith(_STATUS) else ""
    return f"{message}; {last}" if message else last
