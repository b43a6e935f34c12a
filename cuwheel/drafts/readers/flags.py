"""What compiler and linker flags in a build's texts say: archs, libraries, what isn't portable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cuwheel.drafts.readers.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

# nvcc's documentation, "NVIDIA CUDA Compiler Driver NVCC": `-gencode arch=compute_90,code=sm_90`,
# `-arch=sm_90`.
_GENCODE = re.compile(r"code=\[?(?:sm|compute)_(\d+[af]?)|-arch[= ]sm_(\d+[af]?)")
_LIBRARY = re.compile(r"(?:^|\s)-l(?!inux\b):?(?:lib)?(\w[\w+-]*?)(?:\.(?:so|a)[\d.]*)?(?=\s|$)")
# Each with what it does to a wheel; the last is one of several spellings.
FLAGS = {
    "-lineinfo": "it embeds absolute paths and timestamps of all sources: remove it with a patch",
    "-march=native": "the wheel would only run on CPUs like this machine's: switch it off",
    "--threads": "nvcc compiles for several archs in parallel, each of which needs memory",
}
_SPELLED = {
    "-lineinfo": re.compile(r"(?<![\w-])--?(?:generate-)?line-?info\b"),
    "-march=native": re.compile(r"-m(?:arch|cpu|tune)=native"),
    "--threads": re.compile(r"(?<![\w-])(?:--threads|-t)[= ]?\d*$"),
}


def read_flags(text: str, where: str, guard: str = "") -> Iterator[Finding]:
    """Every fact that one text of a build, or one argument, states as a compiler's flag."""
    for first, second in _GENCODE.findall(text):
        yield Finding(kind="gencode", name=first or second, where=where, guard=guard)
    for name, pattern in _SPELLED.items():
        if pattern.search(text):
            yield Finding(kind="flag", name=name, where=where, guard=guard)
    for name in _LIBRARY.findall(text) if "ineinfo" not in text else ():
        yield Finding(kind="library", name=name, where=where, guard=guard)
