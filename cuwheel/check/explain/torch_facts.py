"""The facts of PyTorch that the failure catalogue uses, from its metadata: it isn't imported."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cuwheel.base.formats.wheel.metadata import header
from cuwheel.base.system.regular_files import read_text

_UNNAMED_RELEASE = "cuda"  # PyPI's builds name none
_OF_CUDA = ("nvidia-", "cuda-")  # projects with CUDA's libraries


def torch_facts(version: str, requires: Iterable[str]) -> dict[str, str]:
    """Return torch's release, and the CUDA that it was built with: `cu130`, `cuda` or `cpu`.

    Args:
        version: of the installed distribution, `2.13.0+cpu`.
        requires: its requirements.
    """
    release, _, local = version.partition("+")
    has_cuda = any(requirement.startswith(_OF_CUDA) for requirement in requires)
    return {"torch": release, "torch_cuda": local or (_UNNAMED_RELEASE if has_cuda else "cpu")}


def installed_torch_facts(site: Path) -> dict[str, str]:
    """Return the facts of the torch in a folder of packages; none where there is none."""
    try:
        file = next(site.glob("torch-*.dist-info/METADATA"), None)
        text = read_text(file) if file else ""
    except (OSError, ValueError):  # a log is explained without it too
        return {}
    version = next(iter(header(text, "Version")), "")
    return torch_facts(version, header(text, "Requires-Dist")) if version else {}
