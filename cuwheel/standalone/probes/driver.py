"""Ask NVIDIA's driver through its libraries what it is and which GPUs it has.

Run by path: `python driver_probe.py ANSWER`. ANSWER is the file that gets the JSON answer, anew
after each step: NVML's words are kept where `cuInit` hangs. Functions and numbers: NVML API
Reference Guide (`nvml.h`) and CUDA Driver API (`cuda.h`). Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable

_TEXT = 96  # bytes; NVML's longest, NVML_DEVICE_NAME_V2_BUFFER_SIZE and the like


class _Memory(ctypes.Structure):
    """`nvmlMemory_t`: bytes."""

    _fields_ = [
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class DriverAnswer:
    """What is known so far, in a file.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._content: dict[str, object] = {}

    def tell(self, **more: object) -> None:
        """Add something and write it all."""
        self._content.update(more)
        aside = self._path + ".new"
        with open(aside, "w", encoding="utf-8") as stream:  # noqa: PTH123
            json.dump(self._content, stream)
        os.replace(aside, self._path)  # noqa: PTH105


def ask_nvml(answer: DriverAnswer) -> None:
    """Versions and devices, whatever CUDA_VISIBLE_DEVICES says."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as problem:
        answer.tell(nvml_fault=str(problem))
        return
    code = nvml.nvmlInit_v2()
    if code:
        nvml.nvmlErrorString.restype = ctypes.c_char_p
        words = nvml.nvmlErrorString(code)
        answer.tell(nvml_code=code, nvml_fault=words.decode() if words else str(code))
        return
    text = ctypes.create_string_buffer(_TEXT)
    if nvml.nvmlSystemGetDriverVersion(text, _TEXT) == 0:
        answer.tell(driver=text.value.decode())
    number = ctypes.c_int()
    if nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(number)) == 0:
        answer.tell(nvml_cuda=number.value)
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    answer.tell(gpus=[_gpu(nvml, index) for index in range(count.value)])


def _gpu(nvml: ctypes.CDLL, index: int) -> dict[str, object]:
    handle = ctypes.c_void_p()
    code = nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
    if code:
        return {"index": index, "fault": code}
    told: dict[str, object] = {"index": index, **_name(nvml, handle)}
    major, minor = ctypes.c_int(), ctypes.c_int()
    asked = (ctypes.byref(major), ctypes.byref(minor))
    if nvml.nvmlDeviceGetCudaComputeCapability(handle, *asked) == 0:
        told["capability"] = f"{major.value}{minor.value}"
    memory = _Memory()
    if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0:
        told["memory"] = memory.total
    mode, pending = ctypes.c_uint(), ctypes.c_uint()
    if nvml.nvmlDeviceGetMigMode(handle, ctypes.byref(mode), ctypes.byref(pending)) == 0:
        told["mig"] = bool(mode.value)
        told["instances"] = _instances(nvml, handle) if mode.value else []
    return told


def _name(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> dict[str, str]:
    text = ctypes.create_string_buffer(_TEXT)
    told = {}
    for key, function in (("name", nvml.nvmlDeviceGetName), ("uuid", nvml.nvmlDeviceGetUUID)):
        if function(handle, text, _TEXT) == 0:
            told[key] = text.value.decode("utf-8", "replace")
    return told


def _instances(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> list[dict[str, str]]:
    """The MIG devices of a GPU; positions may be empty."""
    most = ctypes.c_uint()
    nvml.nvmlDeviceGetMaxMigDeviceCount(handle, ctypes.byref(most))
    found = []
    for place in range(most.value):
        part = ctypes.c_void_p()
        if nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place, ctypes.byref(part)) == 0:
            found.append(_name(nvml, part))
    return found


def ask_cuda(answer: DriverAnswer) -> None:
    """What a CUDA program meets: the loader's libcuda, and CUDA_VISIBLE_DEVICES."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as problem:
        answer.tell(cuda_fault=str(problem))
        return
    answer.tell(libcuda=_path_of("libcuda.so"))
    number = ctypes.c_int()
    if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0:
        answer.tell(cuda=number.value)
    code = cuda.cuInit(0)
    answer.tell(cuda_code=code)
    if code == 0:
        count = ctypes.c_int()
        cuda.cuDeviceGetCount(ctypes.byref(count))
        answer.tell(visible=count.value)


def _path_of(start: str) -> str:
    """The file that the loader took for a library."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123
        fields = [line.rstrip("\n").split(None, 5) for line in maps]
    paths = [parts[5] for parts in fields if len(parts) > 5]  # noqa: PLR2004 - has a path
    return next((path for path in paths if os.path.basename(path).startswith(start)), "")  # noqa: PTH119


def main(path: str) -> None:
    """Ask both; a function that an old driver lacks doesn't keep the rest from being asked."""
    answer = DriverAnswer(path)
    _try(ask_nvml, answer, "nvml_fault")
    _try(ask_cuda, answer, "cuda_fault")
    answer.tell(complete=True)


def _try(ask: Callable[[DriverAnswer], None], answer: DriverAnswer, fault: str) -> None:
    try:
        ask(answer)
    except (AttributeError, OSError, ValueError) as problem:
        answer.tell(**{fault: str(problem)})


if __name__ == "__main__":
    main(sys.argv[1])
