from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.wheelhouse import facts
from cuwheel.build.wheelhouse.facts import cuda_tag, oldest_glibc, pythons, read_facts
from tests.build.wheelhouse.test_simple_api import make_entry
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


@pytest.mark.parametrize(
    ("platform", "glibc"),
    [
        ("manylinux_2_34_x86_64", "2.34"),
        ("manylinux_2_17_x86_64.manylinux2014_x86_64", "2.17"),
        ("manylinux1_x86_64", "2.5"),
        ("linux_x86_64", ""),
        ("win_amd64", ""),
    ],
)
def test_knows_the_oldest_glibc(platform: str, glibc: str) -> None:
    assert oldest_glibc(make_entry(f"toy-1.0-py3-none-{platform}.whl")) == glibc


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        ("cp312-cp312", "3.12"),
        ("cp310-abi3", "3.10 or newer"),
        ("cp313-cp313t", "3.13 without GIL"),
        ("py3-none", "3"),
        ("py39-none", "3.9 or newer"),
        ("py2.py3-none", "2, 3"),
    ],
)
def test_names_pythons(tags: str, text: str) -> None:
    assert pythons(make_entry(f"toy-1.0-{tags}-any.whl")) == text


def test_reads_no_wheel_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = add_wheel(tmp_path / "dist")
    before = read_facts(wheel, sha256_of_file(wheel), tmp_path)
    monkeypatch.setattr(facts, "audit_wheel", None)

    assert read_facts(wheel, sha256_of_file(wheel), tmp_path) == before


def test_damaged_wheel_has_none(tmp_path: Path) -> None:
    wheel = tmp_path / "toy-1.0-py3-none-any.whl"
    wheel.write_text("no archive")

    assert read_facts(wheel, "0" * 64, tmp_path) == facts.WheelFacts()
