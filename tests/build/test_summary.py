"""The table at the end of a build, as a narrow terminal shows it."""

from __future__ import annotations

import io

import pytest
import rich.console

from cuwheel.build.summary import Summary, print_summary
from cuwheel.system.console import Console

_SUMMARY = Summary(
    wheel="causal_conv1d-1.6.1+cu130torch2.11-cp312-cp312-manylinux_2_34_x86_64.whl",
    size=10098,
    sha256="0123456789abcdef" * 4,
    archs=("90",),
    ptx_archs=(),
    platform_tag="manylinux_2_34_x86_64",
    external=(("libcudart.so.13", "nvidia-cuda-runtime (nvidia/cu13/lib)"),),
    durations=(("build", 1.0),),
    peak_memory=0,
)


@pytest.mark.parametrize("fact", [_SUMMARY.wheel, _SUMMARY.sha256])
def test_cuts_nothing_off(fact: str) -> None:
    written = io.StringIO()

    print_summary(_SUMMARY, Console(rich.console.Console(file=written, width=40)))

    assert fact in "".join(written.getvalue().split())
