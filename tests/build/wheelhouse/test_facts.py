from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.wheelhouse import facts
from cuwheel.build.wheelhouse.facts import cuda_tag, read_facts
from tests.build.wheelhouse.test_simple_api import make_entry
from tests.support.check.scans import begin_fatbin
from tests.support.factories import write_wheel
from tests.support.packages.defective_wheels import make_library
from tests.support.packages.toy_wheel import add_wheel


@pytest.mark.parametrize(
    ("version", "toolkit", "tag"),
    [
        ("1.0+cu130torch2.11", "", "cu130"),
        ("1.0+cu124", "13.0", "cu124"),
        ("1.0+torch2.11.cu126", "", "cu126"),
        ("1.0", "12.2", "cu122"),
        ("1.0", "", ""),
        ("1.0+cpu", "", ""),
    ],
)
def test_knows_the_cuda_release(version: str, toolkit: str, tag: str) -> None:
    assert cuda_tag(make_entry(f"toy-{version}-py3-none-any.whl", toolkit=toolkit)) == tag


def test_reads_no_wheel_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = add_wheel(tmp_path / "dist")
    before = read_facts(wheel, sha256_of_file(wheel), tmp_path)
    monkeypatch.setattr(facts, "read_wheel_facts", None)

    assert read_facts(wheel, sha256_of_file(wheel), tmp_path) == before


def test_shows_which_library_has_which_code(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made").read_bytes()
    files: dict[str, bytes | Path] = {
        f"toy/{arch}.so": library + begin_fatbin(arch, 16) + bytes(16) for arch in (80, 90)
    }
    wheel = write_wheel(tmp_path, files, tag="cp312-cp312-manylinux_2_28_x86_64")

    known = read_facts(wheel, sha256_of_file(wheel), tmp_path)

    assert known.grid == (("toy/80.so", ("sm_80",)), ("toy/90.so", ("sm_90",)))
    assert known.runs_with == {"archs": ("80", "90"), "grid": known.grid}


def test_damaged_wheel_has_none(tmp_path: Path) -> None:
    wheel = tmp_path / "toy-1.0-py3-none-any.whl"
    wheel.write_text("no archive")

    assert read_facts(wheel, "0" * 64, tmp_path) == facts.WheelFacts()
