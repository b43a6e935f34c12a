"""What an import needs of the machine, and changes in the process: GPUs, programs, variables.

PyTorch: `torch/cuda/__init__.py`, functions that call `_lazy_init`. CuPy: its wrappers of CUDA's
runtime raise `CUDARuntimeError`. JAX: `jax.devices` of a backend that isn't there. NVML: its C API.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.rules.python_values import Foreign, Values

_ON_GPU = frozenset(
    f"{module}.{name}"
    for module, names in {
        "torch.cuda": "Stream current_device current_stream default_stream get_device_capability "
        "get_device_name get_device_properties get_rng_state init mem_get_info set_device "
        "synchronize",
        "cupy": "arange array asarray empty eye full linspace ones zeros",
        "cupy.cuda": "Stream",
        "cupy.cuda.runtime": "getDevice getDeviceCount getDeviceProperties setDevice",
        "numba.cuda": "current_context device_array get_current_device synchronize to_device",
        "pynvml": "nvmlInit nvmlInit_v2 nvmlDeviceGetCount nvmlSystemGetDriverVersion",
        "pycuda.driver": "init Device",
        "pycuda.tools": "make_default_context",
    }.items()
    for name in names.split()
)
_MODULES = frozenset({"pycuda.autoinit"})  # its import makes a context
# Functions that need a GPU with an argument, or without.
_BACKENDS = frozenset({"jax.devices", "jax.local_devices", "jax.device_count"})
_DEVICE = "cupy.cuda.Device"  # without a number, of the current one
_CREATES = frozenset(
    f"torch.{name}"
    for name in ("arange", "empty", "full", "ones", "rand", "randn", "tensor", "zeros")
)
_AVAILABLE = frozenset({"torch.cuda.is_available", "cupy.is_available", "cupy.cuda.is_available"})
_STARTS = frozenset(
    f"subprocess.{name}" for name in ("Popen", "call", "check_call", "check_output", "run")
)
_CHECKED = frozenset({"subprocess.check_call", "subprocess.check_output"})
# Programs of CUDA's toolkit, its driver and compilers, which users of a wheel needn't have; two of
# them have a project on the index.
_PROGRAMS = frozenset(
    {"c++", "clang", "clang++", "cmake", "cuobjdump", "g++", "gcc", "git", "hipcc", "make"}
    | {"ninja", "nvcc", "nvdisasm", "nvidia-smi", "ptxas", "rocm-smi", "rocminfo"}
)
_HIDES = "the GPUs that it leaves out are gone for the whole process"
_OF_PROCESS = {
    "CUDA_VISIBLE_DEVICES": _HIDES,
    "HIP_VISIBLE_DEVICES": _HIDES,
    "CUDA_LAUNCH_BLOCKING": "all kernels of the process wait for each other",
    "JAX_PLATFORMS": "JAX gets no other devices in the whole process",
    "JAX_PLATFORM_NAME": "JAX gets no other devices in the whole process",
}
_OFF = "0"


class Effect(NamedTuple):
    """What a statement needs or changes that an import always runs.

    Attributes:
        member: with the statement.
        program: that it starts; empty: none.
    """

    member: str
    line: int
    fact: str
    severity: Severity = "warning"
    program: str = ""


def effect_findings(effects: list[Effect], case: AuditCase) -> Iterator[AuditFinding]:
    """Yield imports that fail without a GPU or a program, and settings of the whole process."""
    done: set[tuple[str, str]] = set()
    for effect in effects:
        is_run = effect.member in case.code.run and effect.program not in case.required
        kind = (effect.member, effect.fact.partition(":")[2])  # the first ends the import
        if is_run and kind not in done:
            done.add(kind)
            fact = f"line {effect.line} {effect.fact}"
            yield finding(effect.member, "Python code", fact, effect.severity)
    for item in case.code.imports:
        for module in _MODULES & {item.module, *(f"{item.module}.{name}" for name in item.names)}:
            fact = f"line {item.line} imports {module}: without a GPU the import fails"
            yield finding(item.importer, "Python code", fact, "warning")


def effects_of_call(call: ast.Call, name: str, values: Values, member: str) -> Iterator[Effect]:
    """Yield the effect of a call of another project's function."""
    words = {word.arg: values.text(word.value) or "" for word in call.keywords if word.arg}
    first = values.of(call.args[0]) if call.args else None
    device = words.get("device", "") if name in _CREATES else ""
    if name in _BACKENDS:
        device = words.get("backend") or str(first)
    if name in _ON_GPU or device.startswith(("cuda", "gpu")) or _is_current(call, name):
        fact = f"calls {name}: without a GPU the import fails"
        yield Effect(member, call.lineno, fact)
    elif name in _STARTS and (program := _program(call, name, first)):
        fact = f"runs {program}: without that program the import fails"
        yield Effect(member, call.lineno, fact, program=program)
    elif name in {"os.environ.setdefault", "os.putenv"} and isinstance(first, str):
        severity: Severity = "warning" if name == "os.putenv" else "note"
        yield from _setting(call, first, values.text(call.args[-1]), member, severity)


def effects_of_assignment(node: ast.Assign, values: Values, member: str) -> Iterator[Effect]:
    """Yield the effect of a value for an environment variable."""
    for target in node.targets:
        if isinstance(target, ast.Subscript) and values.of(target.value) == Foreign("os.environ"):
            name = values.text(target.slice) or ""
            if name not in ast.unparse(node.value):  # else it keeps what users set
                yield from _setting(node, name, values.text(node.value), member, "warning")


def effects_of_check(node: ast.stmt, values: Values, member: str) -> Iterator[Effect]:
    """Yield the effect of a module's own check for a GPU, `assert torch.cuda.is_available()`."""
    test = node.test if isinstance(node, ast.Assert) else None
    if isinstance(node, ast.If) and isinstance(node.test, ast.UnaryOp):
        is_refused = isinstance(node.test.op, ast.Not) and isinstance(node.body[-1], ast.Raise)
        test = node.test.operand if is_refused else None
    function = values.of(test.func) if isinstance(test, ast.Call) else None
    if isinstance(function, Foreign) and function.name in _AVAILABLE:
        fact = "refuses to be imported without a GPU"
        yield Effect(member, node.lineno, fact, "note")


def _setting(
    node: ast.expr | ast.stmt, name: str, value: str | None, member: str, severity: Severity
) -> Iterator[Effect]:
    is_off = name == "CUDA_LAUNCH_BLOCKING" and value == _OFF
    if name in _OF_PROCESS and not is_off:
        yield Effect(member, node.lineno, f"sets {name}: {_OF_PROCESS[name]}", severity)


def _is_current(call: ast.Call, name: str) -> bool:
    return name == _DEVICE and not call.args and not call.keywords


def _program(call: ast.Call, name: str, argv: object) -> str:
    """Return the program that a call starts, and without which it raises an exception."""
    words = {word.arg: word.value for word in call.keywords}
    shell, check = words.get("shell"), words.get("check")
    is_shell = shell is not None and not (isinstance(shell, ast.Constant) and not shell.value)
    if is_shell and not (name in _CHECKED or (isinstance(check, ast.Constant) and check.value)):
        return ""
    first = argv[0] if isinstance(argv, tuple) and argv else argv
    words_of_first = first.split() if isinstance(first, str) else ()
    program = PurePosixPath(words_of_first[0]).name if words_of_first else ""
    return program if program in _PROGRAMS else ""
