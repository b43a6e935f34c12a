"""Which facts of a source are about CUDA on Linux, as far as their conditions and folders tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from cuwheel.drafts.readers.finding import Finding

OFF_BY_DEFAULT = "off by default"  # ends the guard of what a variable would have to switch on
OFF = {"OFF", "FALSE", "NO", "0", "", "N"}  # what CMake takes for false

# Conditions of other platforms and accelerators.
_ELSEWHERE = re.compile(
    r"APPLE|WIN32|MSVC|EMSCRIPTEN|ANDROID|IS_ROCM|ROCM|HIP|HIP_BUILD|IS_HIP\w*|IS_WINDOWS|win32"
    r"|\w*_(?:HIP|ROCM|MUSA|SYCL|METAL|VULKAN|OPENCL|CANN|OPENVINO|WEBGPU|HEXAGON|ZDNN)"
)
_OTHER_FOLDER = re.compile(
    r"(^|/)([a-z0-9]+[-_.])*(hip|rocm|musa|sycl|metal|vulkan|opencl|cann|openvino|webgpu|hexagon"
    r"|zdnn|zendnn|android|riscv(64)?|arm64|mingw\d*|windows|virtgpu)([-_.][a-z0-9]+)*[/.]",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"(?P<not>\b(?:NOT|not)\b[\s(]*)?(?<![\w.])(?!(?:not|NOT|and|AND|or|OR)\b)"
    r"(?P<name>[A-Za-z_]\w*)"
)


def is_relevant(finding: Finding, off: Collection[str]) -> bool:
    """Whether a fact counts for a build with CUDA on Linux.

    Args:
        finding: the fact.
        off: options of CMake that are off in this build.
    """
    if finding.guard.endswith(OFF_BY_DEFAULT) or _OTHER_FOLDER.search(finding.where):
        return False
    return not any(
        not found["not"] and (found["name"] in off or _ELSEWHERE.fullmatch(found["name"]))
        for found in _NAME.finditer(finding.guard)
    )
