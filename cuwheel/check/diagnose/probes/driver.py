"""Probe of NVIDIA's driver, by its libraries: versions, and the GPUs.

Run by path: `python driver.py ANSWER`. ANSWER is the file that gets the JSON answer, anew after
each step: NVML's part is kept where `cuInit` hangs. Functions and numbers: NVML API Reference Guide
(`nvml.h`) and CUDA Driver API (`cuda.h`). Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import uuid

_TEXT = 96  # bytes; NVML's longest, NVML_DEVICE_NAME_V2_BUFFER_SIZE and the like


class _Memory(ctypes.Structure):
    """`nvmlMemory_t`: bytes."""

    _fields_ = [
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class DriverAnswer:
    """The answer so far, in a file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._content: dict[str, object] = {}

    def write(self, **more: object) -> None:
        """Add fields and write the file anew."""
        self._content.update(more)
        aside = self._path + ".new"
        with open(aside, "w", encoding="utf-8") as stream:  # noqa: PTH123
            json.dump(self._content, stream)
        os.replace(aside, self._path)  # noqa: PTH105


def read_nvml(answer: DriverAnswer) -> None:
    """Read versions and devices, regardless of CUDA_VISIBLE_DEVICES."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as problem:
        answer.write(nvml_fault=str(problem))
        return
    code = nvml.nvmlInit_v2()
    if code:
        nvml.nvmlErrorString.restype = ctypes.c_char_p
        message = nvml.nvmlErrorString(code)
        answer.write(nvml_code=code, nvml_fault=message.decode() if message else str(code))
        return
    text = ctypes.create_string_buffer(_TEXT)
    if nvml.nvmlSystemGetDriverVersion(text, _TEXT) == 0:
        answer.write(driver=text.value.decode())
    number = ctypes.c_int()
    if nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(number)) == 0:
        answer.write(nvml_cuda=number.value)
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    answer.write(gpus=[_gpu(nvml, index) for index in range(count.value)])


def _gpu(nvml: ctypes.CDLL, index: int) -> dict[str, object]:
    handle = ctypes.c_void_p()
    code = nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
    if code:
        return {"index": index, "fault": code}
    gpu: dict[str, object] = {"index": index, **_name(nvml, handle)}
    numbers = ctypes.c_int(), ctypes.c_int()
    if nvml.nvmlDeviceGetCudaComputeCapability(handle, *map(ctypes.byref, numbers)) == 0:
        gpu["capability"] = "".join(str(number.value) for number in numbers)
    memory = _Memory()
    if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0:
        gpu["memory"] = memory.total
    mode, pending = ctypes.c_uint(), ctypes.c_uint()
    if nvml.nvmlDeviceGetMigMode(handle, ctypes.byref(mode), ctypes.byref(pending)) == 0:
        gpu["mig"] = bool(mode.value)
        gpu["instances"] = _instances(nvml, handle) if mode.value else []
    return gpu


def _name(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> dict[str, str]:
    text = ctypes.create_string_buffer(_TEXT)
    fields = {}
    for key, function in (("name", nvml.nvmlDeviceGetName), ("uuid", nvml.nvmlDeviceGetUUID)):
        if function(handle, text, _TEXT) == 0:
            fields[key] = text.value.decode("utf-8", "replace")
    return fields


def _instances(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> list[dict[str, str]]:
    """Return the MIG devices of a GPU; positions may be empty."""
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetMaxMigDeviceCount(handle, ctypes.byref(count))
    instances = []
    for index in range(count.value):
        part = ctypes.c_void_p()
        if nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index, ctypes.byref(part)) == 0:
            instances.append(_name(nvml, part))
    return instances


def read_cuda(answer: DriverAnswer) -> None:
    """Read what a CUDA program gets: the loader's libcuda, and the visible devices."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as problem:
        answer.write(cuda_fault=str(problem))
        return
    answer.write(libcuda=_path_of("libcuda.so"))
    number = ctypes.c_int()
    if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0:
        answer.write(cuda=number.value)
    code = cuda.cuInit(0)
    answer.write(cuda_code=code)
    if code == 0:
        count = ctypes.c_int()
        cuda.cuDeviceGetCount(ctypes.byref(count))
        answer.write(visible=count.value)
        answer.write(visible_uuids=[_uuid(cuda, ordinal) for ordinal in range(count.value)])


def _uuid(cuda: ctypes.CDLL, ordinal: int) -> str:
    """Return a visible device's UUID as NVML writes it."""
    device, identity = ctypes.c_int(), ctypes.create_string_buffer(16)
    cuda.cuDeviceGet(ctypes.byref(device), ordinal)
    # The first version names a MIG instance's GPU; both have been in libcuda since 11.4.
    cuda.cuDeviceGetUuid(identity, device)
    return f"GPU-{uuid.UUID(bytes=identity.raw)}"


def _path_of(start: str) -> str:
    """Return the file that the loader took for a library."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123
        fields = [line.rstrip("\n").split(None, 5) for line in maps]
    paths = [parts[5] for parts in fields if len(parts) > 5]  # noqa: PLR2004 - has a path
    return next((path for path in paths if os.path.basename(path).startswith(start)), "")  # noqa: PTH119


def main(path: str) -> None:
    """Read both; a function that an old driver lacks ends only one of them."""
    answer = DriverAnswer(path)
    for read, fault in ((read_nvml, "nvml_fault"), (read_cuda, "cuda_fault")):
        try:
            read(answer)
        except (AttributeError, OSError, ValueError) as problem:  # noqa: PERF203 - two rounds
            answer.write(**{fault: str(problem)})
    answer.write(complete=True)


if __name__ == "__main__":
    main(sys.argv[1])
