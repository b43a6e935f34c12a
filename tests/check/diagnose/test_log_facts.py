"""The facts of this machine that decide what a log written on it means."""

from __future__ import annotations

import os
import venv
from pathlib import Path

import pytest

from cuwheel.check.diagnose.log_facts import facts_for_logs


@pytest.mark.parametrize(
    ("version", "requires", "built_with"),
    [
        ("2.13.0+cpu", "", "cpu"),
        ("2.13.0+cu130", "", "cu130"),
        ("2.13.0", "Requires-Dist: nvidia-cublas (==13.1.0.3)\n", "cuda"),
        ("2.13.0", "Requires-Dist: filelock\n", "cpu"),
    ],
)
def test_reads_what_torch_was_built_with(
    version: str, requires: str, built_with: str, tmp_path: Path
) -> None:
    venv.create(tmp_path / "env", symlinks=True)
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    folder = site / f"torch-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Name: torch\nVersion: {version}\n{requires}")

    facts = facts_for_logs(str(tmp_path / "env"), dict(os.environ), tmp_path)

    assert facts["torch_cuda"] == built_with
    assert facts["torch"] == "2.13.0"
    assert facts["driver"]


def test_lacks_torch_without_environment(tmp_path: Path) -> None:
    assert "torch" not in facts_for_logs(str(tmp_path / "absent"), {}, tmp_path)
