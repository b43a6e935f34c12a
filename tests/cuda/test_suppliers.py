from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from cuwheel.cuda.components import KNOWN_COMPONENTS
from cuwheel.cuda.suppliers import (
    component_of,
    components_of,
    is_cuda_library,
    is_from_driver,
    is_grafted,
    is_other_accelerator,
    relative_entry,
    resolve_entry,
)


@pytest.mark.parametrize(
    ("soname", "name"),
    [
        ("libcublasLt.so.13", "cublasLt"),
        ("libcutensornet.so.2", "cutensornet"),
        ("libnvrtc-builtins.so.13.0", "nvrtc-builtins"),
        ("libtorch_cpu.so", "torch"),
        ("libc10.so", "torch"),
    ],
)
def test_finds_component_of_soname(soname: str, name: str) -> None:
    component = component_of(soname)

    assert component is not None
    assert component.name == name


@pytest.mark.parametrize(
    ("soname", "suppliers"),
    [
        ("libcudart.so.11.0", {"nvidia-cuda-runtime-cu11"}),
        ("libnvrtc.so.11.2", {"nvidia-cuda-nvrtc-cu11"}),
        ("libcudnn_ops_infer.so.8", {"nvidia-cudnn-cu11", "nvidia-cudnn-cu12"}),
        ("libcusolver.so.11", {"nvidia-cusolver-cu11", "nvidia-cusolver-cu12"}),
        ("libnvinfer_plugin.so.10", {f"tensorrt-cu{major}-libs" for major in (11, 12, 13)}),
        ("libcaffe2_nvrtc.so", {"torch"}),
    ],
)
def test_finds_suppliers_that_wheels_of_others_have(soname: str, suppliers: set[str]) -> None:
    assert {found.distribution for found in components_of(soname)} == suppliers


@pytest.mark.parametrize("soname", ["libcudart.so.11.0", "libcudnn.so.8", "libnvinfer.so.10"])
def test_recipes_link_none_of_those(soname: str) -> None:
    assert component_of(soname) is None


@pytest.mark.parametrize("soname", ["libcudart.so.11", "libc.so.6", "libcublas.so"])
def test_finds_no_component_of_other_soname(soname: str) -> None:
    assert component_of(soname) is None


@pytest.mark.parametrize(
    ("soname", "cuda", "supplier"),
    [
        ("libcusparse.so.12", 12, "nvidia-cusparse-cu12"),
        ("libcusparse.so.12", 13, "nvidia-cusparse"),
        ("libcurand.so.10", 12, "nvidia-curand-cu12"),
        ("libcurand.so.10", 13, "nvidia-curand"),
        ("libcusolverMg.so.11", 12, "nvidia-cusolver-cu12"),
        ("libcudnn_ops.so.9", 12, "nvidia-cudnn-cu12"),
        ("libcudnn.so.9", 13, "nvidia-cudnn-cu13"),
        ("libc10.so", 12, "torch"),
    ],
)
def test_finds_supplier_of_soname_by_major(soname: str, cuda: int, supplier: str) -> None:
    component = component_of(soname, cuda)

    assert component is not None
    assert component.distribution == supplier


@pytest.mark.parametrize(
    ("soname", "cuda"),
    [("libcudart.so.13", 12), ("libcudart.so.12", 13), ("libcusolver.so.12", 12)],
)
def test_finds_no_component_of_other_major(soname: str, cuda: int) -> None:
    assert component_of(soname, cuda) is None


@pytest.mark.parametrize(
    "name",
    ["libcudart.so.12", "libcudart-1a2b3c4d.so.13.0.96", "libcudnn_ops.so.9", "libcuda.so.1"],
)
def test_knows_cuda_library(name: str) -> None:
    assert is_cuda_library(name)


@pytest.mark.parametrize("name", ["libcudaq.so", "libbitsandbytes_cuda130.so", "libcurl.so.4"])
def test_knows_other_library(name: str) -> None:
    assert not is_cuda_library(name)


def test_knows_library_of_every_cuda_component() -> None:
    sonames = [
        soname.replace(".*", ".0").replace("*", "_ops")
        for component in KNOWN_COMPONENTS
        if component.cuda is not None
        for soname in component.sonames
    ]

    assert [soname for soname in sonames if not is_cuda_library(soname)] == []


@pytest.mark.parametrize(
    "soname", ["libcuda.so.1", "libnvidia-ml.so.1", "libnvcuvid.so.1", "libnvoptix.so.1"]
)
def test_knows_library_of_driver(soname: str) -> None:
    assert is_from_driver(soname)


@pytest.mark.parametrize("soname", ["libcuda.so", "libcudart.so.13", "libnvidia-mlx.so.1"])
def test_knows_library_of_no_driver(soname: str) -> None:
    assert not is_from_driver(soname)


@pytest.mark.parametrize(
    "soname",
    ["libhipblas.so.2", "libamdhip64.so.6", "libMIOpen.so.1", "libsycl.so.8", "libmkl_core.so.2"],
)
def test_knows_library_of_other_accelerator(soname: str) -> None:
    assert is_other_accelerator(soname)


@pytest.mark.parametrize("soname", ["libcudart.so.13", "librocksdb.so.9", "libhipster.so"])
def test_knows_library_of_no_other_accelerator(soname: str) -> None:
    assert not is_other_accelerator(soname)


def test_tells_grafted_framework_library_from_own() -> None:
    assert is_grafted("tiny.libs/libtorch_cpu-1a2b3c4d.so")
    assert not is_grafted("torchaudio/lib/libtorchaudio.so")


@pytest.mark.parametrize(
    ("library", "entry"),
    [
        ("pkg/a.so", "$ORIGIN/../nvidia/cu13/lib"),
        ("a.so", "$ORIGIN/nvidia/cu13/lib"),
        ("nvidia/cu13/lib/a.so", "$ORIGIN"),
    ],
)
def test_finds_way_to_folder_and_back(library: str, entry: str) -> None:
    folder = PurePosixPath("nvidia/cu13/lib")

    assert relative_entry(PurePosixPath(library), folder) == entry
    assert resolve_entry(PurePosixPath(library), entry) == folder


def test_resolves_entry_in_braces() -> None:
    assert resolve_entry(PurePosixPath("pkg/a.so"), "${ORIGIN}/../b/") == PurePosixPath("b")


@pytest.mark.parametrize(
    "entry",
    ["/opt/lib", "lib", "$ORIGIN/../..", "$ORIGIN/../../x", "$ORIGIN/$LIB", "$ORIGINAL/x"],
)
def test_refuses_entry_that_leads_elsewhere(entry: str) -> None:
    assert resolve_entry(PurePosixPath("pkg/a.so"), entry) is None
