"""Files that the recipe leaves out, and libraries of the machine in a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import AuditError
from cuwheel.build.finish.repair.contents import leave_out
from cuwheel.build.recipe.link import External, Link
from tests.support.build.repairs import MEMBER, library_needing, metadata_of, repair_wheel
from tests.support.factories import compile_library, heard, make_target

NAMES = ("pkg/__init__.py", "tests/a/test_b.py", "tests/data.bin", "pkg-1.dist-info/METADATA")


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """An unpacked wheel that holds its tests."""
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_removes_and_returns_matching_files(content: Path) -> None:
    gone = leave_out(content, make_target(leave_out=("tests/*",)))

    assert gone == ("tests/a/test_b.py", "tests/data.bin")
    assert [name for name in NAMES if (content / name).exists()] == [NAMES[0], NAMES[3]]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("test/*", '"test/*" matches no file'), ("*/METADATA", "it matches pkg-1.dist-info/METADATA")],
)
def test_refuses_pattern(content: Path, pattern: str, words: str) -> None:
    with pytest.raises(AuditError) as caught:
        leave_out(content, make_target(leave_out=("tests/*", pattern)))

    assert words in caught.value.why
    assert all((content / name).exists() for name in NAMES)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """One that uses GCC's OpenMP, which no platform tag promises."""
    source = tmp_path / "openmp.c"
    source.write_text("#include <omp.h>\nint threads(void) { return omp_get_max_threads(); }\n")
    return compile_library(tmp_path / "libtiny.so", "gcc", "-fPIC", source, "-fopenmp")


def test_refuses_library_that_recipe_does_not_name(tmp_path: Path, library: Path) -> None:
    with pytest.raises(AuditError, match="would contain system libraries") as caught:
        repair_wheel(tmp_path, {MEMBER: library}, link=Link("cudart", "driver"))

    assert caught.value.why == f"libgomp.so.1.0.0, for {MEMBER}"
    line = (
        'write link=Link("cudart", "driver", bundles=("libgomp",)), and its licence into `license`'
    )
    assert caught.value.fix.startswith(line)


def test_leaves_mode_of_recipe_as_it_is(tmp_path: Path, library: Path) -> None:
    link = Link(mode=External(extra="cuda"), bundles=("libother",))

    with pytest.raises(AuditError) as caught:
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


def test_reports_nothing_where_nothing_is_copied(tmp_path: Path) -> None:
    wheel, _ = repair_wheel(
        tmp_path, {MEMBER: library_needing(tmp_path, "libtiny.so", "libcudart.so.13")}
    )

    assert wheel.bundled == ()
