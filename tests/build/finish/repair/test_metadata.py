"""What repair writes into METADATA and the bill of materials."""

from __future__ import annotations

from pathlib import Path

from cuwheel.base.formats.wheel.metadata import header
from cuwheel.build.recipe.link import Link
from cuwheel.build.recipe.recipe import Framework
from tests.support.build.repairs import elf_of, library_needing, metadata_of, repair_wheel


def test_replaces_requirement_of_framework_with_exact_one(tmp_path: Path) -> None:
    library = library_needing(tmp_path, "ext.so", "libtorch.so", "libc10.so")
    framework = Framework(name="torch", version="2.11.0")

    wheel, _ = repair_wheel(
        tmp_path, {"ext.so": library}, ("torch", "ninja"), framework=framework, link=Link("torch")
    )

    assert header(metadata_of(wheel), "requires-dist") == ("torch==2.11.*", "ninja")
    assert elf_of(wheel, "ext.so").runpath == ("$ORIGIN/torch/lib",)
    assert header(metadata_of(wheel), "version") == ("1.2.3+cu130torch2.11",)


def test_requires_oldest_release_that_a_stable_abi_serves(tmp_path: Path) -> None:
    library = library_needing(tmp_path, "ext.so", "libtorch.so")
    framework = Framework(name="torch", version="2.11.0", serves=("2.9.1", "2.15.0"))

    wheel, _ = repair_wheel(
        tmp_path, {"ext.so": library}, ("torch",), framework=framework, link=Link("torch")
    )

    assert header(metadata_of(wheel), "requires-dist") == ("torch>=2.9",)
    assert header(metadata_of(wheel), "version") == ("1.2.3+cu130",)
