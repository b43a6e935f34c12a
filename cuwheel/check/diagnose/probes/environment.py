"""Probe of an interpreter's environment: what is installed, or what an import gives.

Run by path with the interpreter of the environment: `python environment.py REQUEST ANSWER`.
REQUEST is JSON: `{"request": "facts"}`, `{"request": "framework", "name": "torch"}`,
`{"request": "package", "before": ["torch"], "modules": ["a"]}`, which are imported, or `{"request":
"module", "name": "a"}`, which is run as `python -m` does. ANSWER is the file that gets the JSON
answer, anew after each step: what comes before a crash or a hang is kept. With `changes` it is an
experiment (experiment.py). Standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import os
import sys

_EARLY = frozenset(sys.modules)  # what each start of Python has imported

# Python puts this script's folder first, where it would hide modules of the environment.
_OWN = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - before pathlib's import
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _OWN]  # noqa: PTH100

import errno  # noqa: E402
import faulthandler  # noqa: E402
import importlib  # noqa: E402
import importlib.machinery  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import runpy  # noqa: E402
import stat  # noqa: E402
import sysconfig  # noqa: E402
import traceback  # noqa: E402

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.metadata import Distribution
    from typing import Any

_OF_GPUS = ("CUDA_", "JAX_", "LD_", "NUMBA_", "NVIDIA_")  # beginnings of variables
# Parts of Python that its build leaves out where their libraries are missing.
_PARTS = ("_bz2", "_ctypes", "_lzma", "_sqlite3", "_ssl")
_TEXT = 64 << 20  # characters of METADATA or RECORD
_TRACEBACK = 12  # last lines of a traceback that are kept
_CHAIN = 10  # exceptions that are followed to the first
_LINE = 400  # characters of an exception's message
_ADVICE = 200  # characters of a message that is longer than a fact
# Variables for what is written below the home folder at an import, where it isn't there yet.
_WRITTEN = {
    "KERAS_HOME": ("~/.keras/keras.json",),
    "MPLCONFIGDIR": ("~/.config/matplotlib", "~/.cache/matplotlib", "~/.matplotlib"),
}
_ERRORS: list[BaseException] = []  # of the last failure, the first one that led to it last


class EnvironmentAnswer:
    """The answer so far, in a file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.content: dict[str, object] = {}

    def write(self, **more: object) -> None:
        """Add fields and write the file anew."""
        self.content.update(more)
        aside = self._path + ".new"
        with open(aside, "w", encoding="utf-8") as stream:  # noqa: PTH123
            json.dump(self.content, stream)
        os.replace(aside, self._path)  # noqa: PTH105


def write_facts(answer: EnvironmentAnswer) -> None:
    """Write the facts of the interpreter, then its distributions."""
    import importlib.metadata  # noqa: PLC0415 - half of Python's start; others need none

    version = platform.python_version()
    answer.write(
        version=version,
        prefix=sys.prefix,
        path=[entry for entry in sys.path if entry],
        scheme=sysconfig.get_paths(),
        suffixes=importlib.machinery.EXTENSION_SUFFIXES,
        managed=_managed(),
        lacking=[name for name in _PARTS if not importlib.util.find_spec(name)],
        variables={name: os.environ[name] for name in os.environ if name.startswith(_OF_GPUS)},
        is_conda=os.path.isdir(os.path.join(sys.prefix, "conda-meta")),  # noqa: PTH112, PTH118
        markers={
            "implementation_name": sys.implementation.name,
            "os_name": os.name,
            "platform_machine": platform.machine(),
            "platform_python_implementation": platform.python_implementation(),
            "platform_system": platform.system(),
            "python_full_version": version,
            "python_version": ".".join(version.split(".")[:2]),
            "sys_platform": sys.platform,
        },
    )
    found = importlib.metadata.distributions()
    answer.write(started=sorted(_EARLY), distributions=list(_distributions(found)))


def _managed() -> str:
    """Return the file by which a system keeps installers out of its own Python (PEP 668)."""
    if sys.prefix != sys.base_prefix:
        return ""
    path = os.path.join(sysconfig.get_paths()["stdlib"], "EXTERNALLY-MANAGED")  # noqa: PTH118
    return path if os.path.isfile(path) else ""  # noqa: PTH113


def _distributions(
    found: Iterable[Distribution],
) -> Iterator[dict[str, object]]:
    """Yield each distribution on the path; a damaged one must not hide the others."""
    for distribution in found:
        place = str(getattr(distribution, "_path", ""))
        try:
            fields = _distribution(distribution)
        except Exception as problem:  # noqa: BLE001 - whichever part of it is damaged
            fields = {"name": "", "fault": "%s: %s" % (type(problem).__name__, problem)}  # noqa: UP031
        yield {"place": place, **fields}


def _text(distribution: Distribution, name: str) -> str | None:
    """Return a file of a distribution's metadata; None where there is none.

    Raises:
        OSError: it is a FIFO or a device, at which a reader would wait for ever.
    """
    folder = str(getattr(distribution, "_path", ""))
    if not os.path.isdir(folder):  # noqa: PTH112 - in an archive
        return distribution.read_text(name)
    try:
        number = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK)  # noqa: PTH118
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    with open(number, encoding="utf-8") as stream:  # noqa: PTH123
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "%s is not a regular file" % name)  # noqa: UP031
        return stream.read(_TEXT)


def _distribution(distribution: Distribution) -> dict[str, object]:
    text = _text(distribution, "METADATA") or _text(distribution, "PKG-INFO") or ""
    if "\0" in text:  # as files have it after a power failure
        return {"name": "", "fault": "its metadata contain a zero byte"}
    record = _text(distribution, "RECORD")
    headers = [line.partition(":") for line in text.partition("\n\n")[0].splitlines()]
    values = [(name.strip().lower(), value.strip()) for name, _, value in headers]
    named = dict(reversed(values))
    if not named.get("name") or not named.get("version"):
        return {"name": "", "fault": "its metadata name no project or no version"}
    requires = [value for name, value in values if name == "requires-dist"]
    return {
        "name": named["name"],
        "version": named["version"],
        "requires": requires
        or (list(distribution.requires or []) if "Requires" not in text else []),
        "libraries": sorted(_libraries(distribution, record)),
        "fault": "its RECORD contains a zero byte" if "\0" in (record or "") else "",
    }


def _libraries(distribution: Distribution, record: str | None) -> Iterator[str]:
    """Yield the shared libraries in a distribution's RECORD, or without one those on disk."""
    if record is None:
        for top in (_text(distribution, "top_level.txt") or "").split():
            for folder, _, files in os.walk(str(distribution.locate_file(top))):
                yield from (os.path.join(folder, file) for file in files if _is_library(file))  # noqa: PTH118
        return
    for line in record.splitlines():
        if ".so" in line and "\0" not in line:
            name = line.rsplit(",", 2)[0].strip('"')
            if _is_library(name.rpartition("/")[2]):
                yield os.path.normpath(str(distribution.locate_file(name)))


def _is_library(file: str) -> bool:
    return file.endswith(".so") or ".so." in file


def write_framework(answer: EnvironmentAnswer, name: str) -> None:
    """Import a framework and write what it sees of CUDA."""
    try:
        module = importlib.import_module(name)
    except BaseException:  # noqa: BLE001 - any failure of the package is an answer
        failure = _failure() + _stale_modules()
        answer.write(failure=failure, libraries=loaded_libraries(), modules=loaded_modules())
        return
    answer.write(
        version=str(getattr(module, "__version__", "")),
        file=str(getattr(module, "__file__", "")),
        libraries=loaded_libraries(),
        modules=loaded_modules(),
    )
    try:
        _READERS[name](answer, module)
    except BaseException:  # noqa: BLE001 - likewise
        answer.write(trouble=_failure())
    answer.write(libraries=loaded_libraries())


def _read_torch(answer: EnvironmentAnswer, torch: Any) -> None:
    answer.write(
        cuda=torch.version.cuda or "",
        hip=getattr(torch.version, "hip", None) or "",
        cxx11_abi=bool(torch._C._GLIBCXX_USE_CXX11_ABI),  # noqa: SLF001
    )
    if hasattr(torch, "ones"):
        answer.write(part="compute on the CPU")
        ones = torch.ones(2, 2) @ torch.ones(2, 2)
        if importlib.util.find_spec("numpy"):
            ones.numpy()
        answer.write(part="")
    flags = getattr(torch._C, "_cuda_getArchFlags", None)  # noqa: SLF001
    answer.write(archs=str((flags and flags()) or "").split())
    cuda = torch.cuda
    answer.write(available=bool(cuda.is_available()))
    if not answer.content["available"]:
        try:
            cuda.init()
        except BaseException as problem:  # noqa: BLE001 - its message is the reason
            answer.write(why_not=str(problem).splitlines()[:1])
    else:
        answer.write(
            devices=[
                {"name": cuda.get_device_name(one), "capability": cuda.get_device_capability(one)}
                for one in range(cuda.device_count())
            ]
        )
    # Looks whether the cuDNN that is loaded is the one that torch was built with. It may end the
    # process: what is known was written before.
    answer.write(cudnn=str(torch.backends.cudnn.version() or ""))


def _read_jax(answer: EnvironmentAnswer, jax: Any) -> None:
    devices = [
        {
            "name": str(device.device_kind),
            "capability": str(getattr(device, "compute_capability", "")).split("."),
        }
        for device in jax.devices()
        if device.platform in ("gpu", "cuda")
    ]
    answer.write(available=bool(devices), devices=devices)
    if not devices:
        answer.write(why_not=["it runs on %s" % jax.default_backend()])  # noqa: UP031
    if jax.default_backend() == "cpu" and importlib.util.find_spec("jax.numpy"):
        answer.write(part="compute on the CPU")
        importlib.import_module("jax.numpy").ones(2).sum().block_until_ready()
    if importlib.util.find_spec("jax.scipy"):
        answer.write(part="import jax.scipy")  # which fails with a SciPy of another time
        importlib.import_module("jax.scipy.linalg")


def _read_cupy(answer: EnvironmentAnswer, cupy: Any) -> None:
    runtime = cupy.cuda.runtime
    devices = []
    try:
        release = runtime.runtimeGetVersion()
        text = "%d.%d" % (release // 1000, release % 1000 // 10)  # noqa: UP031 - Python 3.8
        answer.write(cuda=text)
        count = runtime.getDeviceCount()
    except BaseException as problem:  # noqa: BLE001 - its message is the reason
        answer.write(available=False, why_not=str(problem).splitlines()[:1])
        count = 0
    for index in range(count):
        properties = runtime.getDeviceProperties(index)
        name = properties["name"]
        devices.append(
            {
                "name": name.decode() if isinstance(name, bytes) else str(name),
                "capability": [properties["major"], properties["minor"]],
            }
        )
    answer.write(available=bool(devices), devices=devices)
    # CuPy imports these when one of them is first used.
    names = ("cublas", "cusolver", "cusparse", "curand")
    reasons = {name: _refusal("cupy_backends.cuda.libs", name) for name in names}
    answer.write(lacking={name: reason for name, reason in reasons.items() if reason})
    nvrtc = getattr(cupy.cuda, "nvrtc", None)
    # A compiler of kernels, which CuPy opens for the first one.
    if nvrtc and not getattr(runtime, "is_hip", False):
        answer.write(part="compile a kernel")
        try:
            nvrtc.getVersion()
            program = nvrtc.createProgram("__global__ void f() {}", "f.cu", (), ())
            nvrtc.compileProgram(program, ("--gpu-architecture=compute_80",))
        except BaseException as problem:  # the library's of CUDA 11, which needs the driver
            if "InsufficientDriver" not in str(problem):
                raise


def _refusal(package: str, name: str) -> str:
    """Return why `from package import name` fails, in one line; empty: it works."""
    try:
        __import__(package, fromlist=[name])
    except ImportError as problem:
        return " ".join(str(problem).split())[:_LINE]
    return ""


_READERS = {"torch": _read_torch, "jax": _read_jax, "cupy": _read_cupy}


_NUMBAS_SWITCHES = ("NUMBA_DISABLE_CUDA", "NUMBA_ENABLE_CUDASIM")


def _kernel() -> None:
    """Do nothing, on a GPU."""


def _read_numba(answer: EnvironmentAnswer, numba: Any) -> None:
    if hasattr(numba, "njit"):
        answer.write(part="compile a function for the CPU")
        numba.njit(_kernel)()
        answer.write(part="use CUDA")
    cuda = importlib.import_module("numba.cuda")
    answer.write(available=bool(cuda.is_available()))
    off = any(os.environ.get(name, "0") != "0" for name in _NUMBAS_SWITCHES)
    # numba alone compiles for GPUs only where a toolkit is.
    if importlib.util.find_spec("numba_cuda") and not off:
        answer.write(part="compile a kernel")
        compiler = importlib.import_module("numba.cuda")
        compiler.compile_ptx(_kernel, (), cc=(8, 0))
    if os.environ.get("NUMBA_THREADING_LAYER"):  # else it takes any that is there
        answer.write(part="run in parallel")
        importlib.import_module("numba.np.ufunc.parallel")._launch_threads()  # noqa: SLF001


def _read_triton(answer: EnvironmentAnswer, triton: Any) -> None:
    """Start what compiles kernels: its ptxas, and the C compiler for what launches them."""
    answer.write(part="compile kernels")
    importlib.import_module("triton.runtime.build")
    folder = os.path.dirname(triton.__file__)  # noqa: PTH120
    paths = [
        os.path.join(folder, *parts, "ptxas")  # noqa: PTH118
        for parts in (("backends", "nvidia", "bin"), ("common", "..", "third_party", "cuda", "bin"))
    ]
    named = os.environ.get("TRITON_PTXAS_PATH")
    programs = [[path, "--version"] for path in paths if os.path.lexists(path)]
    programs += [[named, "--version"]] if named else []
    programs += [[os.environ["CC"], "--version"]] if os.environ.get("CC") else []
    for program in programs:
        null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
        child = os.posix_spawnp(program[0], program, os.environ, file_actions=[null])
        status = os.waitpid(child, 0)[1]
        if status:
            raise OSError("%s ended with status %d" % (program[0], status))  # noqa: UP031


def _read_onnxruntime(answer: EnvironmentAnswer, onnxruntime: Any) -> None:
    providers = onnxruntime.get_available_providers()
    answer.write(available="CUDAExecutionProvider" in providers)
    if importlib.util.find_spec("numpy"):
        answer.write(part="run a model on the CPU")
        session = onnxruntime.InferenceSession(_MODEL, providers=["CPUExecutionProvider"])
        session.run(None, {"x": importlib.import_module("numpy").ones(1, "float32")})


# y = Identity(x), of one float, in the format of onnx.proto.
_MODEL = (
    b'\x08\x08:7\n\x10\n\x01x\x12\x01y"\x08Identity\x12\x01g'
    b"Z\x0f\n\x01x\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01"
    b"b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x02\x10\x0d"
)


def _read_opencv(answer: EnvironmentAnswer, cv2: Any) -> None:
    answer.write(part="resize and encode an image")
    image = importlib.import_module("numpy").zeros((4, 4, 3), "uint8")
    cv2.imencode(".png", cv2.resize(image, (2, 2)))


def _read_keras(answer: EnvironmentAnswer, keras: Any) -> None:
    answer.write(part="compute with its backend")
    keras.ops.convert_to_numpy(keras.ops.add([1.0], [1.0]))


def _read_tensorflow(answer: EnvironmentAnswer, tensorflow: Any) -> None:
    """Import Keras, which TensorFlow does at its first use."""
    answer.write(part="use Keras")
    _ = tensorflow.keras.layers
    if hasattr(tensorflow, "constant"):
        answer.write(part="compute on the CPU")
        (tensorflow.constant([1.0]) + 1.0).numpy()


def _read_bindings(answer: EnvironmentAnswer, _: Any) -> None:
    """Import the extensions, which open CUDA's libraries at their first call."""
    for name in ("driver", "runtime", "nvrtc"):
        if importlib.util.find_spec("cuda.bindings." + name):
            answer.write(part="import cuda.bindings." + name)
            importlib.import_module("cuda.bindings." + name)


_PACKAGE_READERS = {
    "cuda.bindings": _read_bindings,
    "cv2": _read_opencv,
    "keras": _read_keras,
    "numba": _read_numba,
    "numba_cuda": _read_numba,
    "onnxruntime": _read_onnxruntime,
    "tensorflow": _read_tensorflow,
    "triton": _read_triton,
}


def write_package(answer: EnvironmentAnswer, before: list[str], modules: list[str]) -> None:
    """Import a package, then call its functions that load more libraries.

    Frameworks that it requires are imported before: each has a process of its own too.
    """
    functions = []
    for name in (*before, *modules):
        answer.write(importing=name)
        try:
            module = importlib.import_module(name)
        except BaseException:  # noqa: BLE001 - any failure of the package is an answer
            if name in before:
                continue
            answer.write(failure=_failure() + _stale_modules(), module=name)
            break
        names = vars(module) if name in modules else {}
        functions += [(name, key, names[key]) for key in names if key.startswith("preload")]
        reader = _PACKAGE_READERS.get(name)
        if reader:
            try:
                answer.write(part="use CUDA")
                reader(answer, module)
            except BaseException:  # noqa: BLE001 - likewise
                answer.write(without_cuda=_failure())
    answer.write(importing="", libraries=loaded_libraries(), modules=loaded_modules())
    if "failure" in answer.content:
        return
    try:
        for owner, name, function in functions:
            function()
            call = "%s.%s()" % (owner, name)  # noqa: UP031 - as everywhere here
            answer.write(call=call, called_libraries=loaded_libraries())
    except BaseException:  # noqa: BLE001 - likewise
        answer.write(trouble=_failure())


def run_module(answer: EnvironmentAnswer, name: str) -> None:
    """Run a package as `python -m` does, then write which libraries are loaded."""
    status: object = 0
    sys.argv[1:] = []
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code
    except BaseException:  # noqa: BLE001 - any failure of the package is an answer
        answer.write(failure=_failure())
        status = 1
    number = status if isinstance(status, int) else int(status is not None)
    answer.write(status=number, libraries=loaded_libraries())


def loaded_libraries() -> list[str]:
    """Return the paths of the shared libraries of this process: proc_pid_maps(5)."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123
        fields = [line.rstrip("\n").split(None, 5) for line in maps]
    paths = {parts[5] for parts in fields if len(parts) > 5}  # noqa: PLR2004 - has a path
    return sorted(path for path in paths if ".so" in os.path.basename(path))  # noqa: PTH119


def loaded_modules() -> list[str]:
    """Return the top-level modules that were imported since the start."""
    return sorted({name.partition(".")[0] for name in sys.modules} - _EARLY)


def _failure() -> str:
    """Return the end of the traceback, then its exception and the first cause, as one line."""
    chain: list[str] = []
    error = sys.exc_info()[1]
    _ERRORS.clear()
    while error and len(chain) < _CHAIN:
        _ERRORS.append(error)
        texts = (line.strip() for line in str(error).splitlines())
        text = " ".join(text for text in texts if text.strip("=-*~# "))[:_LINE]
        chain.append("%s: %s" % (type(error).__name__, text))  # noqa: UP031 - as everywhere here
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    lines = traceback.format_exc().strip().splitlines()[-_TRACEBACK:]
    summary, root = chain[0], chain[-1]
    if len(summary) > _ADVICE:  # a page on what may be wrong
        summary = root
    elif root.partition(": ")[2] not in summary:
        summary = "%s; before it, %s" % (summary, root)  # noqa: UP031
    return "\n".join([*lines, " ".join(summary.split())])


def _stale_modules() -> str:
    """Return which compiled modules aren't of their source, in a part of an exception's line.

    Python takes one with an unchecked hash (PEP 552) as it is.
    """
    specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
    trace = sys.exc_info()[2]
    while trace:
        specs.append(trace.tb_frame.f_globals.get("__spec__"))
        trace = trace.tb_next
    paths = {(getattr(spec, "cached", None), getattr(spec, "origin", None)) for spec in specs}
    stale = [str(cached) for cached, origin in paths if _is_stale(cached, origin)]
    return "".join("; %s isn't of its source" % path for path in sorted(stale))  # noqa: UP031


def _is_stale(cached: str | None, origin: str | None) -> bool:
    try:
        with open(str(cached), "rb") as stream:  # noqa: PTH123
            head = stream.read(16)
        if head[4:8] != b"\1\0\0\0":  # checked by its source's time, or hash
            return False
        with open(str(origin), "rb") as stream:  # noqa: PTH123
            return importlib.util.source_hash(stream.read()) != head[8:]
    except OSError:
        return False


def main(request: dict[str, Any], path: str) -> None:
    """Write the answer to one request."""
    faulthandler.enable()  # a crash names the line that it came from
    for name, places in _WRITTEN.items():
        if not any(os.path.exists(os.path.expanduser(one)) for one in places):  # noqa: PTH110, PTH111
            os.environ.setdefault(name, os.path.dirname(path))  # noqa: PTH120
    answer = EnvironmentAnswer(path)
    experiment = _experiment() if "changes" in request else None
    if experiment:
        experiment.prepare(request["changes"])
    if request["request"] == "facts":
        write_facts(answer)
    elif request["request"] == "framework":
        write_framework(answer, request["name"])
    elif request["request"] == "package":
        write_package(answer, request["before"], request["modules"])
    else:
        run_module(answer, request["name"])
    if experiment:
        answer.write(seen=experiment.record_of(_ERRORS))
    answer.write(complete=True)


def _experiment() -> Any:
    """Return the module of this folder, which isn't searched for modules."""
    path = os.path.join(_OWN, "experiment.py")  # noqa: PTH118
    spec: Any = importlib.util.spec_from_file_location("_cuwheel_experiment", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
