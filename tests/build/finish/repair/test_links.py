"""Which links a wheel has, and what a recipe has to declare of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import AuditError
from cuwheel.base.formats.wheel.metadata import header
from cuwheel.build.recipe.link import Bundled, Link
from tests.support.build.repairs import MEMBER, elf_of, library_needing, metadata_of, repair_wheel


def test_leads_library_to_its_neighbour_in_wheel(tmp_path: Path) -> None:
    library = library_needing(tmp_path, "ext.so", "libown.so.1")
    files: dict[str, bytes | Path] = {
        "pkg/ext.so": library,
        "pkg/lib/libown.so.1": tmp_path / "libown.so.1",
    }

    wheel, _ = repair_wheel(tmp_path, files, link=Link())

    assert elf_of(wheel, "pkg/ext.so").runpath == ("$ORIGIN/lib",)


def test_leads_to_folder_of_each_cuda_12_library(tmp_path: Path) -> None:
    library = library_needing(tmp_path, "ext.so", "libcublas.so.12", "libcusparse.so.12")

    wheel, _ = repair_wheel(
        tmp_path, {"pkg/ext.so": library}, toolkit="12.2", link=Link("cublas", "cusparse")
    )

    assert elf_of(wheel, "pkg/ext.so").runpath == (
        "$ORIGIN/../nvidia/cublas/lib",
        "$ORIGIN/../nvidia/cusparse/lib",
    )
    assert header(metadata_of(wheel), "requires-dist") == (
        "nvidia-cublas-cu12>=12.2,<13",
        "nvidia-cusparse-cu12>=12.1,<13",
    )


@pytest.mark.parametrize(
    ("toolkit", "requirement", "folder"),
    [
        ("12.8", "nvidia-cusparse-cu12>=12.5,<13", "nvidia/cusparse/lib"),
        ("13.0", "nvidia-cusparse>=12.6,<13", "nvidia/cu13/lib"),
    ],
)
def test_takes_soname_of_two_majors_from_the_toolkits(
    tmp_path: Path, toolkit: str, requirement: str, folder: str
) -> None:
    library = library_needing(tmp_path, "ext.so", "libcusparse.so.12")

    wheel, _ = repair_wheel(
        tmp_path, {"pkg/ext.so": library}, toolkit=toolkit, link=Link("cusparse")
    )

    assert wheel.requires == (requirement,)
    assert elf_of(wheel, "pkg/ext.so").runpath == (f"$ORIGIN/../{folder}",)


def test_requires_cudnn_once_for_its_libraries(tmp_path: Path) -> None:
    library = library_needing(tmp_path, "ext.so", "libcudnn.so.9", "libcudnn_ops.so.9")

    wheel, _ = repair_wheel(tmp_path, {"pkg/ext.so": library}, toolkit="12.8", link=Link("cudnn"))

    assert wheel.requires == ("nvidia-cudnn-cu12>=9.13,<10",)


@pytest.mark.parametrize(
    ("needed", "options", "parts"),
    [
        (
            *("libnowhere.so.3", {"link": Link()}),
            ('required library "libnowhere.so.3" could not be located',),
        ),
        (  # it opens another one
            *("libnvrtc.so.13", {"link": Link("nvrtc"), "mode": Bundled()}),
            ("libnvrtc-builtins", "can't be linked in mode `bundled`"),
        ),
        (
            *("libcublas.so.13", {"link": Link("cudart", mode=Bundled())}),
            ('to fix   add "cublas" to `link`\n',),
        ),
        (
            *("libcudart.so.12", {"mode": Bundled()}),
            ("to fix   build against a library of CUDA 13",),
        ),
    ],
    ids=("nowhere", "opens others", "not declared", "other major"),
)
def test_refuses_library(
    needed: str, options: dict[str, Any], parts: tuple[str, ...], tmp_path: Path
) -> None:
    library = library_needing(tmp_path / "made", "libtiny.so", needed)

    with pytest.raises(AuditError) as caught:
        repair_wheel(tmp_path, {MEMBER: library}, **options)

    assert [part for part in parts if part not in str(caught.value)] == []


def test_leaves_driver_to_the_system(tmp_path: Path) -> None:
    library = library_needing(tmp_path, "ext.so", "libcuda.so.1")

    wheel, _ = repair_wheel(tmp_path, {"pkg/ext.so": library}, link=Link("driver"))

    assert elf_of(wheel, "pkg/ext.so").needed[0] == "libcuda.so.1"
    assert (wheel.requires, wheel.bundled) == ((), ())
    assert wheel.external == ()


def test_refuses_wheel_without_library(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="contains no compiled library"):
        repair_wheel(tmp_path, {"pkg/__init__.py": b""})
