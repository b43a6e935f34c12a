"""Say what the environment of an interpreter holds, or what importing a part of it gives.

Run by path with the interpreter of the environment to look at: `python environment_probe.py
QUESTION ANSWER`. QUESTION is JSON: `{"ask": "facts"}`, `{"ask": "framework", "name": "torch"}`,
`{"ask": "package", "modules": ["a"]}`, which are imported, or `{"ask": "module", "name": "a"}`,
which is run as `python -m` does. ANSWER is the file that gets the JSON answer, anew after each
step: what comes before a crash or a hang is kept.
Standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import os
import sys

# Python puts this script's folder first, where it would hide modules of the environment.
_OWN = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - before pathlib's import
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _OWN]  # noqa: PTH100

import faulthandler  # noqa: E402
import importlib  # noqa: E402
import importlib.machinery  # noqa: E402
import importlib.metadata  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import runpy  # noqa: E402
import sysconfig  # noqa: E402
import traceback  # noqa: E402

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator

_TRACEBACK = 12  # last lines of a traceback that are kept


class EnvironmentAnswer:
    """What is known so far, in a file.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.content: dict[str, object] = {}

    def tell(self, **more: object) -> None:
        """Add something and write it all."""
        self.content.update(more)
        aside = self._path + ".new"
        with open(aside, "w", encoding="utf-8") as stream:  # noqa: PTH123
            json.dump(self.content, stream)
        os.replace(aside, self._path)  # noqa: PTH105


def tell_facts(answer: EnvironmentAnswer) -> None:
    """The interpreter, then its distributions."""
    version = platform.python_version()
    answer.tell(
        version=version,
        implementation=sys.implementation.name,
        executable=sys.executable,
        prefix=sys.prefix,
        base_prefix=sys.base_prefix,
        path=[entry for entry in sys.path if entry],
        platlib=sysconfig.get_paths()["platlib"],
        soabi=sysconfig.get_config_var("SOABI") or "",
        suffixes=importlib.machinery.EXTENSION_SUFFIXES,
        managed=_managed(),
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
    answer.tell(distributions=list(_distributions()))


def _managed() -> str:
    """The file by which a system keeps installers out of its own Python (PEP 668), or nothing."""
    if sys.prefix != sys.base_prefix:
        return ""
    path = os.path.join(sysconfig.get_paths()["stdlib"], "EXTERNALLY-MANAGED")  # noqa: PTH118
    return path if os.path.isfile(path) else ""  # noqa: PTH113


def _distributions() -> Iterator[dict[str, object]]:
    """Each distribution on the path; a damaged one must not hide the others."""
    for found in importlib.metadata.distributions():
        place = str(getattr(found, "_path", ""))
        try:
            told = _distribution(found)
        except Exception as problem:  # noqa: BLE001 - whatever is wrong with it
            told = {"name": "", "fault": "%s: %s" % (type(problem).__name__, problem)}  # noqa: UP031
        yield {"place": place, **told}


def _distribution(found: importlib.metadata.Distribution) -> dict[str, object]:
    text = found.read_text("METADATA") or found.read_text("PKG-INFO") or ""
    if "\0" in text:  # as files have it after a power failure
        return {"name": "", "fault": "its metadata contain a zero byte"}
    record = found.read_text("RECORD")
    headers = [line.partition(":") for line in text.partition("\n\n")[0].splitlines()]
    values = [(name.strip().lower(), value.strip()) for name, _, value in headers]
    named = dict(reversed(values))
    if not named.get("name") or not named.get("version"):
        return {"name": "", "fault": "its metadata name no project or no version"}
    requires = [value for name, value in values if name == "requires-dist"]
    return {
        "name": named["name"],
        "version": named["version"],
        "requires": requires or (list(found.requires or []) if "Requires" not in text else []),
        "libraries": sorted(_libraries(found, record)),
        "fault": "its RECORD contains a zero byte" if "\0" in (record or "") else "",
    }


def _libraries(found: importlib.metadata.Distribution, record: str | None) -> Iterator[str]:
    """Shared libraries that a distribution says it has installed, there or not."""
    if record is None:
        for top in (found.read_text("top_level.txt") or "").split():
            for folder, _, files in os.walk(str(found.locate_file(top))):
                yield from (os.path.join(folder, file) for file in files if _is_library(file))  # noqa: PTH118
        return
    for line in record.splitlines():
        if ".so" in line and "\0" not in line:
            name = line.rsplit(",", 2)[0].strip('"')
            if _is_library(name.rpartition("/")[2]):
                yield os.path.normpath(str(found.locate_file(name)))


def _is_library(file: str) -> bool:
    return file.endswith(".so") or ".so." in file


def tell_framework(answer: EnvironmentAnswer, name: str) -> None:
    """Import a framework and ask it about CUDA."""
    try:
        module = importlib.import_module(name)
    except BaseException:  # noqa: BLE001 - whatever the package does, the caller is told
        answer.tell(failure=_failure(), libraries=loaded_libraries())
        return
    answer.tell(
        version=str(getattr(module, "__version__", "")),
        file=str(getattr(module, "__file__", "")),
        libraries=loaded_libraries(),
    )
    try:
        _QUESTIONS[name](answer, module)
    except BaseException:  # noqa: BLE001 - likewise
        answer.tell(trouble=_failure())
    answer.tell(libraries=loaded_libraries())


def _ask_torch(answer: EnvironmentAnswer, torch: object) -> None:
    said = torch
    answer.tell(
        cuda=said.version.cuda or "",  # type: ignore[attr-defined]
        hip=getattr(said.version, "hip", None) or "",  # type: ignore[attr-defined]
        cxx11_abi=bool(said._C._GLIBCXX_USE_CXX11_ABI),  # type: ignore[attr-defined]  # noqa: SLF001
    )
    flags = getattr(said._C, "_cuda_getArchFlags", None)  # type: ignore[attr-defined]  # noqa: SLF001
    answer.tell(archs=str((flags and flags()) or "").split())
    cuda = said.cuda  # type: ignore[attr-defined]
    answer.tell(available=bool(cuda.is_available()))
    if not answer.content["available"]:
        try:
            cuda.init()
        except BaseException as problem:  # noqa: BLE001 - it says why
            answer.tell(why_not=str(problem).splitlines()[:1])
        return
    answer.tell(
        devices=[
            {"name": cuda.get_device_name(index), "capability": cuda.get_device_capability(index)}
            for index in range(cuda.device_count())
        ]
    )
    # Looks whether the cuDNN that is loaded is the one that torch was built with.
    answer.tell(cudnn=str(said.backends.cudnn.version() or ""))  # type: ignore[attr-defined]


def _ask_jax(answer: EnvironmentAnswer, jax: object) -> None:
    found = jax.devices()  # type: ignore[attr-defined]
    gpus = [one for one in found if one.platform in ("gpu", "cuda")]
    answer.tell(
        available=bool(gpus),
        devices=[
            {
                "name": str(one.device_kind),
                "capability": str(getattr(one, "compute_capability", "")).split("."),
            }
            for one in gpus
        ],
    )


def _ask_cupy(answer: EnvironmentAnswer, cupy: object) -> None:
    runtime = cupy.cuda.runtime  # type: ignore[attr-defined]
    release = runtime.runtimeGetVersion()
    answer.tell(cuda="%d.%d" % (release // 1000, release % 1000 // 10))  # noqa: UP031 - Python 3.8
    count = runtime.getDeviceCount()
    answer.tell(available=count > 0, devices=[_cupy_device(cupy, one) for one in range(count)])


def _cupy_device(cupy: object, index: int) -> dict[str, object]:
    told = cupy.cuda.runtime.getDeviceProperties(index)  # type: ignore[attr-defined]
    name = told["name"]
    return {
        "name": name.decode() if isinstance(name, bytes) else str(name),
        "capability": [told["major"], told["minor"]],
    }


_QUESTIONS = {"torch": _ask_torch, "jax": _ask_jax, "cupy": _ask_cupy}


def tell_package(answer: EnvironmentAnswer, modules: list[str]) -> None:
    """Import a package, then let it load what it offers to load."""
    offers = []
    try:
        for name in modules:
            own = vars(importlib.import_module(name))
            offers += [(name, one, own[one]) for one in own if one.startswith("preload")]
    except BaseException:  # noqa: BLE001 - whatever the package does, the caller is told
        answer.tell(failure=_failure())
    answer.tell(libraries=loaded_libraries())
    try:
        for module, name, function in offers:
            function()
            call = "%s.%s()" % (module, name)  # noqa: UP031 - as everywhere here
            answer.tell(call=call, called_libraries=loaded_libraries())
    except BaseException:  # noqa: BLE001 - likewise
        answer.tell(failure=_failure())


def run_module(answer: EnvironmentAnswer, name: str) -> None:
    """Run a package as `python -m` does, then say which libraries are loaded."""
    status: object = 0
    sys.argv[1:] = []
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code
    except BaseException:  # noqa: BLE001 - whatever the package does, the caller is told
        answer.tell(failure=_failure())
        status = 1
    number = status if isinstance(status, int) else int(status is not None)
    answer.tell(status=number, libraries=loaded_libraries())


def loaded_libraries() -> list[str]:
    """Paths of the shared libraries that are mapped into this process: proc_pid_maps(5)."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123
        fields = [line.rstrip("\n").split(None, 5) for line in maps]
    paths = {parts[5] for parts in fields if len(parts) > 5}  # noqa: PLR2004 - has a path
    return sorted(path for path in paths if ".so" in os.path.basename(path))  # noqa: PTH119


def _failure() -> str:
    return "\n".join(traceback.format_exc().strip().splitlines()[-_TRACEBACK:])


def main(question: dict[str, object], path: str) -> None:
    """Answer one question."""
    faulthandler.enable()  # a crash names the line that it came from
    answer = EnvironmentAnswer(path)
    if question["ask"] == "facts":
        tell_facts(answer)
    elif question["ask"] == "framework":
        tell_framework(answer, str(question["name"]))
    elif question["ask"] == "package":
        tell_package(answer, list(question["modules"]))  # type: ignore[call-overload]
    else:
        run_module(answer, str(question["name"]))
    answer.tell(complete=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
