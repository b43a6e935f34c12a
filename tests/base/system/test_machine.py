from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from cuwheel.base.system import machine

_GIB = 1 << 30
_UNIFIED = "0::/job/step\n"
_REPORT = "NVRM version: NVIDIA UNIX "
_SPLIT = "5:memory:/job\n4:cpu,cpuacct:/job\n"


class Cgroups:
    """Cgroup file system made of plain files."""

    def __init__(self, folder: Path, own: str) -> None:
        self.top = folder / "cgroup"
        self.own = folder / "own"
        self.own.write_text(own)

    def write(self, files: Mapping[str, object]) -> None:
        for name, content in files.items():
            path = self.top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n")

    def cores(self) -> int:
        return machine.usable_cores(os.environ, self.top, self.own)


@pytest.fixture
def unified(tmp_path: Path) -> Cgroups:
    """Version 2: one tree."""
    return Cgroups(tmp_path, _UNIFIED)


@pytest.fixture
def split(tmp_path: Path) -> Cgroups:
    """Version 1: one tree for each controller."""
    return Cgroups(tmp_path, _SPLIT)


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(("allotted", "cores"), [("2", 2), ("16", 8), ("", 8)])
def test_takes_no_more_cores_than_its_slurm_job_has(
    unified: Cgroups, monkeypatch: pytest.MonkeyPatch, allotted: str, cores: int
) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", allotted)

    assert unified.cores() == cores


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"job/step/cpu.max": "max 100000"}, 8),
        ({"job/step/cpu.max": "350000 100000"}, 3),
        ({"job/step/cpu.max": "50000 100000"}, 1),
        ({"job/cpu.max": "200000 100000", "job/step/cpu.max": "max 100000"}, 2),
        ({"cpu.max": "400000 100000"}, 4),
    ],
    ids=["none", "unlimited", "rounded down", "below one", "above", "top"],
)
def test_counts_cores_of_version_2(
    unified: Cgroups, files: Mapping[str, object], cores: int
) -> None:
    unified.write(files)

    assert unified.cores() == cores


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(("quota", "cores"), [(-1, 8), (250_000, 2)])
def test_counts_cores_of_version_1(split: Cgroups, quota: int, cores: int) -> None:
    split.write({"cpu/job/cpu.cfs_quota_us": quota, "cpu/job/cpu.cfs_period_us": 100_000})

    assert split.cores() == cores


def test_counts_only_cores_of_own_mask(unified: Cgroups, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})

    assert unified.cores() == 1


def test_measures_disk_of_folder_to_come(tmp_path: Path) -> None:
    assert machine.free_disk(tmp_path / "not" / "yet") > 0


@pytest.mark.parametrize(
    ("module", "report", "version"),
    [
        ("580.65.06\n", "", "580.65.06"),
        ("", f"{_REPORT}x86_64 Kernel Module  535.104.05  Sat Aug 19 2023\n", "535.104.05"),
        ("", f"{_REPORT}Open Kernel Module for x86_64  570.86.15  Release Build\n", "570.86.15"),
        ("", "", None),
    ],
    ids=["module", "report", "open module", "none"],
)
def test_reads_driver_version(
    tmp_path: Path, module: str, report: str, version: str | None
) -> None:
    for name, text in (("module", module), ("report", report)):
        if text:
            (tmp_path / name).write_text(text)

    assert machine.driver_version(tmp_path / "module", tmp_path / "report") == version
