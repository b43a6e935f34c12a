"""What an import needs of the machine, and changes in the process: GPUs, programs, variables.

PyTorch: `torch/cuda/__init__.py`, functions that call `_lazy_init`. CuPy: its wrappers of CUDA's
runtime raise `CUDARuntimeError`. JAX: `jax.devices` of a backend that isn't there. NVML: its C API.
"""

from __future__ import annotations

import ast
import contextlib
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.rules.python.values import Foreign, Values

# Functions of PyTorch that make a tensor.
_CREATES = frozenset(
    f"torch.{name}"
    for name in ("arange", "empty", "full", "ones", "rand", "randn", "tensor", "zeros")
)
_ON_GPU = frozenset(f"{made}().cuda" for made in _CREATES) | frozenset(
    f"{module}.{name}"
    for module, names in {
        "torch.cuda": "Stream current_device current_stream default_stream get_device_capability "
        "get_device_name get_device_properties get_rng_state init mem_get_info set_device "
        "synchronize",
        "cupy": "arange array asarray empty eye full linspace ones zeros",
        "cupy.cuda": "Stream",
        "cupy.random": "normal rand randint randn random uniform",
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
_CHANGES = "for all code of the process"
_ALL = "for the whole process"
_OF_PROCESS = {
    "CUDA_DEVICE_ORDER": f"it numbers the GPUs anew {_ALL}",
    "LD_PRELOAD": "all programs that the process starts load that library",
    "OMP_NUM_THREADS": f"it limits the threads {_CHANGES}",
    "MKL_NUM_THREADS": f"it limits the threads {_CHANGES}",
    "PYTORCH_ALLOC_CONF": f"it replaces the settings of PyTorch's memory {_ALL}",
    "PYTORCH_CUDA_ALLOC_CONF": f"it replaces the settings of PyTorch's memory {_ALL}",
    "XLA_FLAGS": f"it replaces the settings of XLA {_ALL}",
    "XLA_PYTHON_CLIENT_PREALLOCATE": f"it changes how JAX takes memory {_ALL}",
    "XLA_PYTHON_CLIENT_MEM_FRACTION": f"it changes how JAX takes memory {_ALL}",
    "TF_CPP_MIN_LOG_LEVEL": f"it hides messages {_ALL}",
    "PATH": f"programs in other folders are gone {_ALL}",
    "HOME": f"settings and caches are looked for elsewhere {_ALL}",
    "CUDA_VISIBLE_DEVICES": _HIDES,
    "HIP_VISIBLE_DEVICES": _HIDES,
    "CUDA_LAUNCH_BLOCKING": "all kernels of the process wait for each other",
    "JAX_PLATFORMS": "JAX gets no other devices in the whole process",
    "JAX_PLATFORM_NAME": "JAX gets no other devices in the whole process",
}
_OFF = "0"
_PIP = re.compile(r"\b(uv )?pip3? install\b")
_HIDDEN = re.compile(r"(base64|zlib|bz2|lzma|marshal|binascii)\.")
_ENDS = frozenset({"sys.exit", "os._exit", "os.abort", "builtins.exit", "builtins.quit"})
_PARSERS = frozenset(
    f"argparse.ArgumentParser().parse_{which}" for which in ("args", "known_args")
) | {"optparse.OptionParser().parse_args"}
# What a condition decides that a program, a user or another rule controls.
_DECIDED = re.compile(
    r"__name__|TYPE_CHECKING|version_info|sys\.platform|os\.name|platform\.|environ|getenv|argv"
)
_RESTORED = b"setdlopenflags("  # by a second call
_HARMLESS = frozenset({"TF_CPP_MIN_LOG_LEVEL"})
_PREFIXES: tuple[str, ...] = (
    "CUBLAS_",
    "CUDA_",
    "CUPY_",
    "JAX_",
    "KMP_",
    "MKL_",
    "NCCL_",
    "NUMBA_",
    "OMP_",
)
_PREFIXES += ("OPENBLAS_", "PYTORCH_", "TF_", "TORCH_", "TRITON_", "UCX_", "XLA_")
_NO_NETWORK = "without a network the import fails"
# What a call does to the import, or to the process that imports.
_CALLS: dict[str, tuple[str, Severity]] = {
    **dict.fromkeys(
        (
            *(f"requests.{name}" for name in ("get", "post", "head", "request")),
            *("httpx.get", "httpx.post", "urllib.request.urlopen", "urllib.request.urlretrieve"),
            *("socket.create_connection", "huggingface_hub.hf_hub_download"),
            *(
                "huggingface_hub.snapshot_download",
                "torch.hub.load",
                "torch.hub.download_url_to_file",
            ),
            *("torch.hub.load_state_dict_from_url", "gdown.download", "wget.download"),
        ),
        (_NO_NETWORK, "warning"),
    ),
    **dict.fromkeys(
        _ENDS,
        ("the import ends the process", "error"),
    ),
    **dict.fromkeys(
        (
            "builtins.breakpoint",
            "builtins.input",
            "getpass.getpass",
            "pdb.set_trace",
            "ipdb.set_trace",
            "IPython.embed",
        ),
        ("the import waits for a person at a terminal", "error"),
    ),
    **dict.fromkeys(
        ("torch.utils.cpp_extension.load", "torch.utils.cpp_extension.load_inline"),
        ("the import compiles code, and fails without compilers", "warning"),
    ),
    **dict.fromkeys(
        ("multiprocessing.Process().start", "multiprocessing.Pool"),
        ("the import starts processes, each of which may import the program again", "warning"),
    ),
    "threading.Thread().start": ("the import starts a thread, which a fork loses", "note"),
    **dict.fromkeys(
        (
            *("jax.random.PRNGKey", "jax.random.key"),
            *(f"jax.numpy.{name}" for name in ("arange", "array", "asarray", "eye", "full")),
            *(f"jax.numpy.{name}" for name in ("linspace", "ones", "zeros")),
        ),
        ("the import starts JAX's backend, which takes a GPU's memory", "warning"),
    ),
    "cuda.bindings.driver.cuInit": ("without a driver it fails", "note"),
    "os.fork": ("the import makes a second process, which goes on with the program", "warning"),
    "multiprocessing.set_start_method": (f"a program can't set it any more {_ALL}", "warning"),
    "torch.multiprocessing.set_start_method": (
        f"a program can't set it any more {_ALL}",
        "warning",
    ),
    "torch.set_default_dtype": (f"it changes the type of new tensors {_CHANGES}", "warning"),
    "torch.set_default_device": (f"it changes where tensors are made {_CHANGES}", "warning"),
    "torch.set_default_tensor_type": (f"it changes the type of new tensors {_CHANGES}", "warning"),
    "torch.set_grad_enabled": (f"it changes gradients {_CHANGES}", "warning"),
    "torch.autograd.set_detect_anomaly": (f"it slows gradients down {_CHANGES}", "warning"),
    "torch.use_deterministic_algorithms": (f"other operations raise errors {_CHANGES}", "warning"),
    "torch.set_float32_matmul_precision": (f"it changes results {_CHANGES}", "warning"),
    "torch.set_num_threads": (f"it limits the threads {_CHANGES}", "warning"),
    "jax.config.update": (f"it changes JAX's settings {_CHANGES}", "warning"),
    "jax.distributed.initialize": ("it waits for other processes", "warning"),
    "torch.distributed.init_process_group": ("it waits for other processes", "warning"),
    "signal.signal": (f"it replaces the handler of a signal {_ALL}", "warning"),
    "builtins.print": ("it writes into the output of each program", "note"),
    "time.sleep": ("the import waits", "note"),
    "os.getlogin": ("without a terminal, as in a container, the import fails", "warning"),
    "tkinter.Tk": ("without a screen the import fails", "warning"),
    "sys.setdlopenflags": (f"symbols of libraries meet those of others {_ALL}", "warning"),
    "os.chdir": (f"relative paths lead elsewhere {_ALL}", "warning"),
    "os.environ.clear": (f"all variables are gone {_ALL}", "warning"),
    "os.setuid": (f"it changes the user {_ALL}", "warning"),
    "os.umask": (f"it changes the modes of new files {_ALL}", "warning"),
    "os.nice": (f"it slows the process down {_ALL}", "warning"),
    "resource.setrlimit": (f"it limits what the process may use {_ALL}", "warning"),
    "socket.setdefaulttimeout": (f"it changes connections {_CHANGES}", "warning"),
    "sys.setrecursionlimit": (f"it changes how deep calls may go {_CHANGES}", "note"),
    "gc.disable": (f"no cycle of objects is freed any more {_ALL}", "warning"),
    "sys.settrace": (f"it slows down, or ends a debugger {_ALL}", "warning"),
    "locale.setlocale": (f"numbers and dates look different {_CHANGES}", "note"),
    "logging.basicConfig": (f"a program can't set up its logs any more {_ALL}", "note"),
    "logging.disable": (f"it hides messages {_CHANGES}", "warning"),
    "warnings.simplefilter": (f"it changes which warnings appear {_CHANGES}", "note"),
    "warnings.filterwarnings": (f"it changes which warnings appear {_CHANGES}", "note"),
    **dict.fromkeys(
        ("random.seed", "numpy.random.seed", "torch.manual_seed", "torch.cuda.manual_seed_all"),
        (f"random numbers repeat {_CHANGES}", "warning"),
    ),
    "numpy.seterr": (f"it changes how NumPy treats errors {_CHANGES}", "note"),
    "matplotlib.use": (f"it changes where pictures appear {_CHANGES}", "note"),
}
# Attributes of PyTorch that all code of a process shares.
_FLAGS = {
    **dict.fromkeys(
        ("torch.backends.cuda.matmul.allow_tf32", "torch.backends.cudnn.allow_tf32"),
        f"it changes results {_CHANGES}",
    ),
    **dict.fromkeys(
        (
            "torch.backends.cudnn.deterministic",
            "torch.backends.cudnn.benchmark",
            "torch.backends.cudnn.enabled",
            "torch.backends.cuda.matmul.fp32_precision",
        ),
        f"it changes speed and results {_CHANGES}",
    ),
    "sys.stdout": f"output goes elsewhere {_ALL}",
    "sys.stderr": f"output goes elsewhere {_ALL}",
    "sys.excepthook": f"errors look different {_ALL}",
    "socket.socket": f"all connections are replaced {_ALL}",
}
# Modules of which all code of a process shares the names.
_PATCHED = frozenset({"builtins", "cupy", "jax", "numpy", "torch", "transformers", "triton"})
_UNSET = frozenset({"os.environ.get()", "os.getenv()"})  # None where the variable isn't set
_JOINS = frozenset(
    {"os.path.join", "pathlib.Path", "os.listdir", "builtins.open", "os.path.exists"}
)
_SEARCH = frozenset({"sys.path.append", "sys.path.insert", "site.addsitedir"})
BUILDERS = re.compile(r"/(home|Users|root|builds|__w|workspace|project)/")
"""Folders of a person or a build, which users of a wheel don't have."""
_HOMES = frozenset({"torch.utils.cpp_extension.CUDA_HOME"})  # None without CUDA's toolkit
_SYSTEM = {"sys.platform": "linux", "os.name": "posix", "platform.system()": "Linux"}
_VERSION = "sys.version_info"
_COMPARED: dict[type, Callable[[Any, Any], object]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
# Releases that come before earlier ones as texts; PyTorch's own type compares numbers.
_TEXTS = {"jax": "0.10.0", "numpy": "1.26.4", "scipy": "1.17.0", "transformers": "4.57.0"}
_MINORS = 6  # of CUDA, at most
_NUMBERS = frozenset({"builtins.float", "builtins.int"})
_OLDEST, _NEWEST = 9, 14  # of Python 3, where the wheel states none


class Check(NamedTuple):
    """A condition under which a module refuses to be imported."""

    test: ast.expr
    is_refused_if: bool
    values: Values


class Effect(NamedTuple):
    """What a statement needs or changes that an import always runs.

    Attributes:
        member: with the statement.
        program: that it starts; empty: none.
        check: of the Python or the system, which decides whether it fails.
    """

    member: str
    line: int
    fact: str
    severity: Severity = "warning"
    program: str = ""
    check: Check | None = None


def effect_findings(effects: list[Effect], case: AuditCase) -> Iterator[AuditFinding]:
    """Yield imports that fail without a GPU or a program, and settings of the whole process."""
    done: set[tuple[str, str]] = set()
    for effect in effects:
        is_run = effect.member in case.code.run and effect.program not in case.required
        if "setdlopenflags" in effect.fact:
            is_run &= case.code.sources[effect.member].count(_RESTORED) == 1
        if effect.check:
            yield from _check_findings(effect, effect.check, case) if is_run else ()
            continue
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
    elif name in {*_STARTS, "os.system"} and _PIP.search(_words(first)):
        fact = "runs pip: it changes the environment, and fails without a network"
        yield Effect(member, call.lineno, fact)
    elif name in {"builtins.exec", "builtins.eval"} and _is_hidden(call, values):
        fact = f"calls {name.removeprefix('builtins.')} with code that nobody can read"
        yield Effect(member, call.lineno, fact)
    elif name in _PARSERS and not call.args and not call.keywords:
        fact = "parses the arguments of the program that imports it: it ends at unknown ones"
        yield Effect(member, call.lineno, fact, "error")
    elif name in _STARTS and (program := _program(call, name, first)):
        fact = f"runs {program}: without that program the import fails"
        yield Effect(member, call.lineno, fact, program=program)
    elif name in {"os.environ.setdefault", "os.putenv"} and isinstance(first, str):
        severity: Severity = "warning" if name == "os.putenv" else "note"
        yield from _setting(call, first, values.text(call.args[-1]), member, severity)
    elif name == "os.environ.update":
        for key, value in _pairs(call):
            yield from _setting(call, values.text(key) or "", values.text(value), member, "warning")
    else:
        yield from _changes(call, name, values, member)


def _pairs(call: ast.Call) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    """Yield what a call puts into a dictionary, one way or the other."""
    for node in (each for each in call.args if isinstance(each, ast.Dict)):
        yield from zip(node.keys, node.values, strict=True)
    yield from ((ast.Constant(word.arg), word.value) for word in call.keywords)


def _changes(call: ast.Call, name: str, values: Values, member: str) -> Iterator[Effect]:
    """Yield the effect of a call that needs a network or a GPU, or that changes the process."""
    if name in _CALLS and (name != "warnings.filterwarnings" or len(call.args) == 1):
        fact, level = _CALLS[name]
        fact = f"calls {name.removeprefix('builtins.')}: {fact}"
        yield Effect(member, call.lineno, fact, level)
    elif name.startswith("torch.") and name.endswith(("().to", "().cuda")):
        nodes = [*call.args[:1], *(w.value for w in call.keywords if w.arg == "device")]
        targets = [values.text(node) or "" for node in nodes] if name.endswith(".to") else ["cuda"]
        if any(target.startswith("cuda") for target in targets):
            yield Effect(member, call.lineno, "uses a GPU: without one the import fails")
    elif name in _SEARCH and call.args and (folder := values.text(call.args[-1])):
        fact = f"adds {folder.removeprefix('/site/')} to the folders with modules"
        if BUILDERS.match(folder):
            fact += ", which only the machine that built the wheel has"
            yield Effect(member, call.lineno, fact)
        elif folder.startswith("/site/"):
            yield Effect(member, call.lineno, fact, "note")
    elif name in _JOINS:
        yield from _unset(call, name, values, member)


def _unset(call: ast.Call, name: str, values: Values, member: str) -> Iterator[Effect]:
    """Yield a path that begins with a variable, or a toolkit's folder, which may be missing."""
    first = values.of(call.args[0]) if call.args else None
    if isinstance(first, Foreign) and first.name in _UNSET:
        fact = f"gives {name} a variable of the environment: where it isn't set the import fails"
        yield Effect(member, call.lineno, fact, "error")
    elif isinstance(first, Foreign) and first.name in _HOMES:
        fact = f"gives {name} the folder of CUDA's toolkit: without one the import fails"
        yield Effect(member, call.lineno, fact)


def effects_of_assignment(node: ast.Assign, values: Values, member: str) -> Iterator[Effect]:
    """Yield the effect of a value for an environment variable."""
    for target in node.targets:
        if isinstance(target, ast.Subscript) and values.of(target.value) == Foreign("os.environ"):
            name = values.text(target.slice) or ""
            if name not in ast.unparse(node.value):  # else it keeps what users set
                yield from _setting(node, name, values.text(node.value), member, "warning")
        elif isinstance(target, ast.Attribute):
            owner = values.of(target.value)
            module = owner.name if isinstance(owner, Foreign) else ""
            name = f"{module}.{target.attr}"
            if name in _FLAGS and isinstance(node.value, ast.Constant):
                yield Effect(member, node.lineno, f"sets {name}: {_FLAGS[name]}")
            elif module.partition(".")[0] in _PATCHED and "(" not in module:
                yield Effect(member, node.lineno, f"replaces {name} {_ALL}", "note")


def effects_of_check(node: ast.stmt, values: Values, member: str) -> Iterator[Effect]:
    """Yield the effect of a module's own check for a GPU, `assert torch.cuda.is_available()`."""
    test = node.test if isinstance(node, ast.Assert) else None
    if isinstance(node, ast.If):
        test = _negated(node.test) if _leaves(node.body[-1], values) else None
    function = values.of(test.func) if isinstance(test, ast.Call) else None
    if isinstance(function, Foreign) and function.name in _AVAILABLE:
        fact = "refuses to be imported without a GPU"
        yield Effect(member, node.lineno, fact)
    elif (
        isinstance(function, Foreign)
        and function.name == "shutil.which"
        and isinstance(test, ast.Call)
    ):
        if test.args and (program := values.text(test.args[0])) in _PROGRAMS:
            fact = f"refuses to be imported without {program}"
            yield Effect(member, node.lineno, fact, program=program or "")
    elif isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant):
        if not node.test.value:
            yield Effect(member, node.lineno, "always fails: an assertion of nothing", "error")
    elif isinstance(node, ast.Assert):
        yield Effect(member, node.lineno, "", check=Check(node.test, False, values))
    elif isinstance(node, ast.If) and _leaves(node.body[-1], values) and not node.orelse:
        yield Effect(member, node.lineno, "", check=Check(node.test, True, values))


def _negated(test: ast.expr) -> ast.expr | None:
    """Return `x` of `not x`, and of `x is None`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    is_none = isinstance(test, ast.Compare) and ast.unparse(test).endswith(" is None")
    return test.left if is_none else None  # type: ignore[attr-defined]


def _leaves(node: ast.stmt, values: Values) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    is_exit = isinstance(call, ast.Call) and called_name(call, values) in _ENDS
    return is_exit or isinstance(node, ast.Raise)


def called_name(call: ast.Call, values: Values) -> str:
    """Return the name of a function of Python's or another project's; empty: it is another."""
    function = values.of(call.func)
    if isinstance(call.func, ast.Name) and call.func.id not in values.names:
        return f"builtins.{call.func.id}"
    return function.name if isinstance(function, Foreign) else ""


def possible_effects(node: ast.stmt, values: Values, member: str) -> Iterator[Effect]:
    """Yield effects of a statement that hold under conditions too: the end, pip, hidden code."""
    tests = [part.test for part in ast.walk(node) if isinstance(part, (ast.If, ast.While))]
    if any(_DECIDED.search(ast.unparse(test)) for test in tests):
        return
    tries = [part for part in ast.walk(node) if isinstance(part, ast.Try)]
    tries = [part for part in tries if not any(map(_imports, part.body))]
    failed = {call for part in tries for each in part.handlers for call in ast.walk(each)}
    for call in _possible_calls(node):
        name = called_name(call, values)
        if name in _ENDS:
            fact = "ends the program that imports it, under a condition: raise an ImportError"
            # Where something failed, the import fails either way.
            yield Effect(member, call.lineno, fact, "note" if call in failed else "warning")
        elif name in {*_STARTS, "os.system", "builtins.exec", "builtins.eval"}:
            for effect in effects_of_call(call, name, values, member):
                if not effect.program:
                    yield effect


def _imports(node: ast.stmt) -> bool:
    return any(isinstance(part, (ast.Import, ast.ImportFrom)) for part in ast.walk(node))


def _possible_calls(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of a statement and those below, except in functions."""
    queue = [node]
    for part in queue:
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            queue += ast.iter_child_nodes(part)
            if isinstance(part, ast.Call):
                yield part


def _is_hidden(call: ast.Call, values: Values) -> bool:
    calls = (part for arg in call.args for part in ast.walk(arg) if isinstance(part, ast.Call))
    return any(_HIDDEN.match(called_name(part, values)) for part in calls)


def _check_findings(effect: Effect, check: Check, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a check that some allowed Pythons, or Linux, don't pass."""
    oldest, newest = case.oldest_python or _OLDEST, case.newest_python
    minors = range(oldest, max(oldest, min(newest, _NEWEST)) + 1)
    is_linux = bool(case.platforms) and all("linux" in name for name in case.platforms)
    known = {**_SYSTEM, "platform.machine()": case.markers["platform_machine"]} if is_linux else {}
    refused = [
        minor
        for minor in minors
        if _holds(check.test, check.values, {**known, **_releases(minor)}) is check.is_refused_if
    ]
    if refused:
        names = (
            f"Python 3.{refused[0]}" if len(refused) < len(minors) else "every Python of the wheel"
        )
        fact = f"line {effect.line} refuses {names}: {ast.unparse(check.test)[:80]}"
        is_whole = len(refused) == len(minors)
        yield finding(effect.member, "Python code", fact, "error" if is_whole else "warning")
        return
    for what, texts in _other_releases(case).items():
        values = ({**known, **_releases(minors[-1]), what[0]: text} for text in texts)
        if all(_holds(check.test, check.values, each) is check.is_refused_if for each in values):
            fact = f"line {effect.line} refuses {what[1]}: {ast.unparse(check.test)[:80]}"
            yield finding(effect.member, "Python code", fact)


def _other_releases(case: AuditCase) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return versions that code reads, with what they are of, as far as the wheel decides them."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    if len(case.cuda) == 1:
        of_cuda = f"PyTorch for CUDA {case.cuda[0]}, for which the wheel is"
        found["torch.version.cuda", of_cuda] = tuple(f"{case.cuda[0]}.{n}" for n in range(_MINORS))
    for each in case.requirements:
        release = _TEXTS.get(each.name, "")
        if release and each.marker is None and each.specifier.contains(release):
            name = f"{each.name} {release}, which the wheel allows"
            found[f"{each.name}.__version__", name] = (release,)
    return found


def _releases(minor: int) -> dict[str, object]:
    """Return what code reads of a Python's release."""
    text = f"3.{minor}.0"
    words = dict.fromkeys(("sys.version", "platform.python_version()"), text)
    return {_VERSION: (3, minor, 0), **words}


def _holds(node: ast.expr, values: Values, known: Mapping[str, object]) -> bool | None:
    """Return whether a condition holds, for a Python and a system; None: that isn't known."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _holds(node.operand, values, known)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        parts = [_holds(part, values, known) for part in node.values]
        decisive = isinstance(node.op, ast.Or)
        is_open = decisive not in parts and None in parts
        return None if is_open else (decisive if decisive in parts else not decisive)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        left = _known(node.func.value, values, known)
        start = values.of(node.args[0]) if len(node.args) == 1 else None
        is_start = node.func.attr == "startswith" and isinstance(start, str)
        return left.startswith(start) if isinstance(left, str) and is_start else None  # type: ignore[arg-type]
    is_one = isinstance(node, ast.Compare) and len(node.ops) == 1
    return _compared(node, values, known) if is_one else None  # type: ignore[arg-type]


def _compared(node: ast.Compare, values: Values, known: Mapping[str, object]) -> bool | None:
    nodes = (node.left, node.comparators[0])
    left, right = (_known(side, values, known) for side in nodes)
    compare = _COMPARED.get(type(node.ops[0]))
    if not compare or left is None or right is None or not any(_is_named(n, values) for n in nodes):
        return None
    try:
        return bool(compare(left, right))
    except TypeError:
        return None


def _is_named(node: ast.expr, values: Values) -> bool:
    """Return True for a value of the Python or the system."""
    return any(isinstance(values.of(part), Foreign) for part in ast.walk(node))


def _known(node: ast.expr, values: Values, known: Mapping[str, object]) -> object:
    """Return a constant, or what is known of a name of another module; None: nothing."""
    version: tuple[int, ...] = known[_VERSION]  # type: ignore[assignment]
    if isinstance(node, ast.Subscript) and values.of(node.value) == Foreign(_VERSION):
        return _part(version, node.slice)
    if isinstance(node, ast.Subscript):
        whole = _known(node.value, values, known)
        return _part(whole, node.slice) if isinstance(whole, (str, tuple)) else None
    if isinstance(node, ast.Call) and ast.unparse(node).endswith(".split('.')"):
        text = _known(node.func.value, values, known)  # type: ignore[attr-defined]
        return tuple(text.split(".")) if isinstance(text, str) else None
    if isinstance(node, ast.Call) and len(node.args) == 1 and called_name(node, values) in _NUMBERS:
        text = _known(node.args[0], values, known)
        with contextlib.suppress(ValueError):
            return float(text) if isinstance(text, str) else None
    value = values.of(node)
    if isinstance(value, Foreign):
        named = {f"{_VERSION}.major": version[0], f"{_VERSION}.minor": version[1]}
        return {**named, **known}.get(value.name)
    return value


def _part(version: tuple[object, ...] | str, index: ast.expr) -> object:
    """Return `sys.version_info[:2]` or `sys.version_info[1]`; None for another part."""
    if isinstance(index, ast.Slice):
        end = index.upper.value if isinstance(index.upper, ast.Constant) else None
        return version[:end] if index.lower is None and isinstance(end, int) else None
    number = index.value if isinstance(index, ast.Constant) else None
    return version[number] if isinstance(number, int) and 0 <= number < len(version) else None


def _meaning(name: str) -> str:
    """Return what a variable of the environment changes; empty: it isn't known."""
    is_general = name.startswith(_PREFIXES)
    return _OF_PROCESS.get(name, f"it replaces the user's setting {_ALL}" if is_general else "")


def _setting(
    node: ast.expr | ast.stmt, name: str, value: str | None, member: str, severity: Severity
) -> Iterator[Effect]:
    is_off = name == "CUDA_LAUNCH_BLOCKING" and value == _OFF
    if (meaning := _meaning(name)) and not is_off:
        level: Severity = severity if name in _OF_PROCESS.keys() - _HARMLESS else "note"
        yield Effect(member, node.lineno, f"sets {name}: {meaning}", level)


def _words(argv: object) -> str:
    parts = argv if isinstance(argv, tuple) else (argv,)
    return " ".join(part for part in parts if isinstance(part, str))


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
