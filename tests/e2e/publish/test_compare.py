"""Two wheels of others, and two builds of one package that differ in all ways that are known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import uv

from cuwheel.base.fetch.download import PinnedFile, download
from cuwheel.base.fetch.indexes.indexes import configured_indexes, find_wheels
from cuwheel.base.system import process
from cuwheel.base.system.console import Console
from cuwheel.base.system.quantities import GIB
from cuwheel.publish.rebuild.compare.report import keep_diffoscope
from cuwheel.publish.rebuild.compare.wheel import compare
from tests.support.factories import write_wheel

# 59 MB each; eleven libraries of CUDA 11.8 to 13.0, packed with LZ4 and zstd, for nine archs.
_RELEASES = ("bitsandbytes-0.49.0-py3", "bitsandbytes-0.49.1-py3")
_KERNELS = """
#include <cassert>
namespace {
template <typename T> __global__ void scale(T *p) { assert(p); *p *= 2; }
struct Start { Start() { scale<<<1, 1>>>((float *)nullptr); scale<<<1, 1>>>((double *)nullptr); } };
Start start;
}
"""
_HOST = (
    '#include <cstdio>\nextern "C" int say() { return std::printf("%s %s", __FILE__, __TIME__); }\n'
)


@pytest.mark.nightly
def test_tells_why_two_releases_of_bitsandbytes_differ(tmp_path: Path) -> None:
    offered = find_wheels("bitsandbytes", indexes=configured_indexes(os.environ))
    for start in _RELEASES:
        file = next(
            one for one in offered if one.name.startswith(start) and one.name.endswith("x86_64.whl")
        )
        wanted = PinnedFile(name=file.name, sha256=file.sha256, max_size=GIB)
        download(wanted, tmp_path / file.name, file.url, console=Console())

    comparison = compare(*sorted(tmp_path.iterdir()))

    device = [one for one in comparison.differences if one.code]
    assert {one.causes for one in device} == {("module-process",), ("names",)}
    assert not [one for one in device if one.part == ".text"]
    assert len({one.code for one in device}) == 11
    changed = {one.member for one in comparison.differences if not one.causes}
    sources = {"bitsandbytes/__init__.py", "bitsandbytes/nn/modules.py"}
    assert {name for name in changed if ".dist-info/" not in name} == sources


def _build(folder: Path, cuda_home: Path, year: int) -> Path:
    """Compile as many packages do: absolute paths, none of the flags that keep bytes equal."""
    folder.mkdir(parents=True)
    (folder / "kernels.cu").write_text(_KERNELS)
    (folder / "host.cpp").write_text(_HOST)
    library = folder / "lib.so"
    flags = ("-ccbin=g++", "-Xcompiler=-fPIC", "-shared", "-cudart=none", "-lineinfo")
    archs = (
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=[sm_90,compute_90]",
    )
    sources = (folder / "kernels.cu", folder / "host.cpp")
    process.run(
        [cuda_home / "bin" / "nvcc", *flags, *archs, *sources, "-o", library],
        env={"PATH": os.environ["PATH"]},
    )
    return write_wheel(folder / "dist", {"pkg/lib.so": library}, year=year)


@pytest.mark.e2e
def test_explains_device_code_of_two_careless_builds(cuda_home: Path, tmp_path: Path) -> None:
    folders = {2025: "first", 2026: "the/second/one"}
    wheels = [_build(tmp_path / name, cuda_home, year) for year, name in folders.items()]

    comparison = compare(*wheels)

    assert {(one.code, one.section) for one in comparison.differences if not one.causes} <= {
        ("", section) for section in (".text", ".rodata", ".data", ".init", ".fini")
    }
    assert {*comparison.causes} >= {
        *("build-path", "build-time", "temporary-name", "module-path", "module-process"),
        *("line-information", "member-times", "build-id", "record"),
    }


@pytest.mark.e2e
def test_keeps_report_of_real_diffoscope(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    inherited = {
        key: value for key, value in os.environ.items() if key.startswith(("UV_", "PIP_", "SSL_"))
    }
    env = {
        **inherited,
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(folder),
    }
    process.run([uv.find_uv_bin(), "tool", "install", "diffoscope"], env=env)
    wheels = [
        write_wheel(tmp_path / name, {"pkg/__init__.py": name.encode()}) for name in ("a", "b")
    ]

    path = f"{folder}:{os.environ['PATH']}"
    keep_diffoscope(wheels[0], wheels[1], tmp_path / "report", search_path=path)

    assert "pkg/__init__.py" in (tmp_path / "report" / "diffoscope.txt").read_text()
