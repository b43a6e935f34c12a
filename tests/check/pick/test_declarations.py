"""Declarations in versions of published wheels."""

from __future__ import annotations

import pytest
from packaging.version import Version

from cuwheel.check.pick.declarations import declared


@pytest.mark.parametrize(
    ("version", "facts"),
    [
        ("2.8.3+cu12torch2.8cxx11abiTRUE", {"cuda": "12", "torch": "2.8", "cxx11_abi": "true"}),
        ("2.8.3+cu128torch2.10", {"cuda": "12.8", "torch": "2.10"}),
        ("2.8.3+cu.12.8.torch.2.11", {"cuda": "12.8", "torch": "2.11"}),
        ("1.6.1+cu130torch2.11", {"cuda": "13.0", "torch": "2.11"}),
        ("2.1.2+pt28cu128", {"cuda": "12.8", "torch": "2.8"}),
        ("0.7.9+18f6958pt2.8.0cu129", {"cuda": "12.9", "torch": "2.8"}),
        ("2.15.0+cu132", {"cuda": "13.2"}),
        ("2.11.0+cpu", {"device": "cpu"}),
        ("2.11.0+rocm6.4", {"device": "rocm"}),
        ("1.3.1+cu130", {"cuda": "13.0"}),
        ("0.6+20260101", {}),
        ("1.0", {}),
    ],
)
def test_reads_local_versions(version: str, facts: dict[str, str]) -> None:
    assert declared("toy", Version(version)) == facts


@pytest.mark.parametrize(
    ("project", "cuda"),
    [
        ("jax-cuda13-plugin", "13"),
        ("cupy-cuda12x", "12"),
        ("nvidia-cublas-cu12", "12"),
        ("jax-finufft-cuda13x", "13"),
        ("spconv-cu120", "12.0"),
        ("spconv-cu118", "11.8"),
        ("toy-cuda130", "13.0"),
        ("nvidia-nccl-cu13", "13"),
        ("toy-cu1200", ""),
        ("cuda-python", ""),
        ("torch", ""),
    ],
)
def test_reads_names_of_projects(project: str, cuda: str) -> None:
    assert declared(project, Version("1.0")).get("cuda", "") == cuda
