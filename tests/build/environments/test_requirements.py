"""Stated requirements of a source, compared with a lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.environments.requirements import stated_requirements, unlocked_requirements

_PROJECT = """
[project]
name = "p"
dependencies = ["numpy>=1.20"]
[project.optional-dependencies]
Cuda_13 = ["jax", "typing-extensions; python_version < '3.11'"]
"""
_HASH = f"--hash=sha256:{'0' * 64}"
_LOCK = f"""
numpy==2.1.0 {_HASH}
jax==0.8.0 {_HASH}
tomli==2.0.0 ; python_full_version < '3.11' {_HASH}
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "p.lock"
    file.write_text(_LOCK)
    return file


def test_reads_project_table_with_its_extras(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(_PROJECT)

    assert stated_requirements(tmp_path) == (
        "numpy>=1.20",
        'jax; extra == "cuda-13"',
        'typing-extensions; (python_version < "3.11") and extra == "cuda-13"',
    )


@pytest.mark.parametrize("field", ["dependencies", "optional-dependencies"])
def test_leaves_to_backend_what_it_computes(tmp_path: Path, field: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "p"\ndynamic = ["{field}"]\n')

    assert stated_requirements(tmp_path) is None


@pytest.mark.parametrize(
    ("lines", "stated"),
    [
        ("Metadata-Version: 2.2\nRequires-Dist: numpy\n", ("numpy",)),
        ("Metadata-Version: 2.4\nDynamic: Requires-Dist\nRequires-Dist: numpy\n", None),
        ("Metadata-Version: 2.1\nRequires-Dist: numpy\n", None),
        ("no metadata", None),
    ],
)
def test_takes_pkg_info_only_where_it_binds(
    tmp_path: Path, lines: str, stated: tuple[str, ...] | None
) -> None:
    (tmp_path / "PKG-INFO").write_text(lines)

    assert stated_requirements(tmp_path) == stated


@pytest.mark.parametrize(
    ("wanted", "lacking"),
    [
        (["NumPy>=2", "einops>=0.8", "packaging"], ["einops>=0.8", "packaging"]),
        (["numpy>=3"], ["numpy>=3"]),
        (["einops; sys_platform == 'win32'"], []),
        (["tomli; python_version < '3.11'"], []),
        (["tomli"], ["tomli"]),
        (["einops; extra == 'cuda13'", "scipy; extra == 'test'"], ["einops"]),
        (["nvidia-cufft"], []),
    ],
)
def test_names_what_a_lock_lacks(lock: Path, wanted: list[str], lacking: list[str]) -> None:
    result = unlocked_requirements(
        wanted, lock, python="3.12", extra="cuda13", without={"nvidia-cufft"}
    )

    assert result == lacking
