"""The facts of an installed PyTorch, from its metadata alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.check.explain.torch_facts import installed_torch_facts


def install_torch(site: Path, version: str, *requires: str) -> None:
    folder = site / f"torch-{version}.dist-info"
    folder.mkdir(parents=True)
    lines = [f"Requires-Dist: {requirement}" for requirement in requires]
    text = "\n".join(["Metadata-Version: 2.1", "Name: torch", f"Version: {version}", *lines])
    (folder / "METADATA").write_text(f"{text}\n\nRequires-Dist: nvidia-in-a-description\n")


@pytest.mark.parametrize(
    ("version", "requires", "built_with"),
    [
        ("2.13.0+cpu", (), "cpu"),
        ("2.13.0+cu130", ("nvidia-cublas==13.1.0.3",), "cu130"),
        ("2.13.0", ("filelock", "nvidia-cublas==13.1.0.3"), "cuda"),
        ("2.13.0", ("filelock",), "cpu"),
    ],
)
def test_reads_release_and_cuda(
    version: str, requires: tuple[str, ...], built_with: str, tmp_path: Path
) -> None:
    install_torch(tmp_path, version, *requires)

    assert installed_torch_facts(tmp_path) == {"torch": "2.13.0", "torch_cuda": built_with}


def test_knows_nothing_without_torch(tmp_path: Path) -> None:
    install_torch(tmp_path / "other", "2.13.0")

    assert installed_torch_facts(tmp_path) == {}


def test_knows_nothing_of_metadata_without_version(tmp_path: Path) -> None:
    folder = tmp_path / "torch-2.13.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_bytes(b"\xff\xfe")

    assert installed_torch_facts(tmp_path) == {}
