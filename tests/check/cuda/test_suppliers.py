from __future__ import annotations

import pytest

from cuwheel.check.cuda.components import KNOWN_COMPONENTS
from cuwheel.check.cuda.suppliers import (
    component_of,
    components_of,
    is_cuda_library,
    is_from_driver,
    is_grafted,
    is_other_accelerator,
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
def test_finds_suppliers_for_third_party_wheels(soname: str, suppliers: set[str]) -> None:
    assert {component.distribution for component in components_of(soname)} == suppliers


@pytest.mark.parametrize(
    "soname",
    [
        *("libcudart.so.11.0", "libcudnn.so.8", "libnvinfer.so.10"),  # for third-party wheels
        *("libcudart.so.11", "libc.so.6", "libcublas.so"),
    ],
)
def test_finds_no_component_for_recipes(soname: str) -> None:
    assert component_of(soname) is None


def test_finds_component_for_recipes_of_cuda_11() -> None:
    component = component_of("libcudart.so.11.0", 11)

    assert component
    assert component.distribution == "nvidia-cuda-runtime-cu11"


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
    ("name", "is_cuda"),
    [
        ("libcudart.so.12", True),
        ("libcudart-1a2b3c4d.so.13.0.96", True),
        ("libcudnn_ops.so.9", True),
        ("libcuda.so.1", True),
        ("libcudaq.so", False),
        ("libbitsandbytes_cuda130.so", False),
        ("libcurl.so.4", False),
    ],
)
def test_knows_cuda_library(name: str, *, is_cuda: bool) -> None:
    assert is_cuda_library(name) is is_cuda


def test_knows_library_of_every_cuda_component() -> None:
    sonames = [
        soname.replace(".*", ".0").replace("*", "_ops")
        for component in KNOWN_COMPONENTS
        if component.cuda is not None
        for soname in component.sonames
    ]

    assert [soname for soname in sonames if not is_cuda_library(soname)] == []


@pytest.mark.parametrize(
    ("soname", "is_driver"),
    [
        *((f"lib{name}.so.1", True) for name in ("cuda", "nvidia-ml", "nvcuvid", "nvoptix")),
        *((name, False) for name in ("libcuda.so", "libcudart.so.13", "libnvidia-mlx.so.1")),
    ],
)
def test_knows_library_of_driver(soname: str, *, is_driver: bool) -> None:
    assert is_from_driver(soname) is is_driver


@pytest.mark.parametrize(
    ("soname", "is_other"),
    [
        ("libhipblas.so.2", True),
        ("libamdhip64.so.6", True),
        ("libMIOpen.so.1", True),
        ("libsycl.so.8", True),
        ("libmkl_sycl_blas.so.5", True),
        ("libmkl_core.so.2", False),  # the processor's
        ("libcudart.so.13", False),
        ("librocksdb.so.9", False),
        ("libhipster.so", False),
    ],
)
def test_knows_library_of_other_accelerator(soname: str, *, is_other: bool) -> None:
    assert is_other_accelerator(soname) is is_other


def test_knows_grafted_framework_library() -> None:
    assert is_grafted("tiny.libs/libtorch_cpu-1a2b3c4d.so")
    assert not is_grafted("torchaudio/lib/libtorchaudio.so")
