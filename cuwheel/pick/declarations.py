"""What builders write into the version of a wheel: CUDA, framework, string ABI.

No standard says how, so each form stands here once, with who writes so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.version import Version


@dataclass(frozen=True, kw_only=True)
class _Form:
    """A way to write a fact.

    Attributes:
        fact: what it states.
        pattern: in the local version, normalised (lower case, parts joined by dots); its groups
            are joined with dots.
    """

    fact: str
    pattern: re.Pattern[str]


# flash-attn, causal-conv1d and mamba: cu12torch2.8cxx11abiTRUE. Astral: cu.12.8.torch.2.11.
# PyTorch, vLLM, xformers: cu128, cpu, rocm6.4, xpu. PyTorch Geometric: pt28cu128. PyTorch3D:
# pt2.8.0cu129. Ours: cu130torch2.11. Projects with a name for each CUDA: jax-cuda13-plugin,
# cupy-cuda12x, nvidia-cublas-cu12, spconv-cu120.
_FORMS = (
    _Form(fact="cuda", pattern=re.compile(r"(?<![a-z])cu(?:da)?\.?(\d\d)(?:\.?(\d))?(?!\d)")),
    _Form(fact="torch", pattern=re.compile(r"(?:torch|pt)\.?(\d)\.?(\d{1,2})(?!\d)")),
    _Form(fact="jax", pattern=re.compile(r"jax\.?(\d)\.(\d{1,2})(?!\d)")),
    _Form(fact="cxx11_abi", pattern=re.compile(r"cxx11[-_.]?abi[-_.]?(true|false)")),
    _Form(fact="device", pattern=re.compile(r"(?<![a-z])(rocm|cpu|xpu|metal|vulkan)")),
)
_PROJECT_CUDA = re.compile(r"-(?:cuda|cu)(\d\d)(\d)?x?(?=-|$)")


def declared(project: str, version: Version) -> dict[str, str]:
    """What a wheel's name states: `{"cuda": "12.8", "torch": "2.8", "cxx11_abi": "true"}`.

    Args:
        project: its normalised name.
        version: of it, with the local part.
    """
    facts = dict(_in_local(version.local or ""))
    if "cuda" not in facts and (found := _PROJECT_CUDA.search(project)):
        facts["cuda"] = ".".join(filter(None, found.groups()))
    return facts


def _in_local(local: str) -> Iterator[tuple[str, str]]:
    for form in _FORMS:
        if found := form.pattern.search(local):
            yield form.fact, ".".join(filter(None, found.groups()))
