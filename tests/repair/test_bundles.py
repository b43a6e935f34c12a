"""What the machine has and auditwheel would copy: refused, unless the recipe names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import RepairError
from cuwheel.model.link import External, Link
from tests.support.factories import compile_library, heard
from tests.support.repaired import MEMBER, library_needing, metadata_of, repair_wheel

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """One that uses GCC's OpenMP, which no platform tag promises."""
    source = tmp_path / "openmp.c"
    source.write_text("#include <omp.h>\nint threads(void) { return omp_get_max_threads(); }\n")
    return compile_library(tmp_path / "libtiny.so", "gcc", "-fPIC", source, "-fopenmp")


def test_refuses_library_that_recipe_does_not_name(tmp_path: Path, library: Path) -> None:
    with pytest.raises(RepairError, match="would contain system libraries") as caught:
        repair_wheel(tmp_path, {MEMBER: library}, link=Link("cudart", "driver"))

    assert caught.value.why == f"libgomp.so.1.0.0, for {MEMBER}"
    line = (
        'write link=Link("cudart", "driver", bundles=("libgomp",)), and its licence into `license`'
    )
    assert caught.value.fix.startswith(line)


def test_leaves_mode_of_recipe_as_it_is(tmp_path: Path, library: Path) -> None:
    link = Link(mode=External(extra="cuda"), bundles=("libother",))

    with pytest.raises(RepairError) as caught:
        repair_wheel(tmp_path, {MEMBER: library}, link=link)

    assert 'write bundles=("libother", "libgomp",) into `link`' in caught.value.fix


def test_takes_library_that_recipe_names(tmp_path: Path, library: Path) -> None:
    wheel, workspace = repair_wheel(
        tmp_path, {MEMBER: library}, link=Link(bundles=("libgomp", "libssl"))
    )

    [(name, _)] = wheel.bundled
    assert name.startswith("tiny_cuda.libs/libgomp-")
    assert "Requires-Dist" not in metadata_of(wheel)
    assert 'the recipe bundles "libssl", but no library of the wheel needs it' in heard(workspace)


def test_has_nothing_to_say_where_nothing_is_copied(tmp_path: Path) -> None:
    wheel, _ = repair_wheel(
        tmp_path, {MEMBER: library_needing(tmp_path, "libtiny.so", "libcudart.so.13")}
    )

    assert wheel.bundled == ()
