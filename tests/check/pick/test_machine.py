"""This machine with an environment, and machines on paper."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.base.errors import InterpreterNotFoundError, UsageError
from cuwheel.check.diagnose.facts import environment as environment_facts
from cuwheel.check.diagnose.facts.environment import PythonEnvironment
from cuwheel.check.pick.machine import TargetMachine, parse_machine, read_here


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("machine") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder


def install(environment: Path, name: str, version: str) -> Path:
    """Write the metadata of a package; return its site-packages."""
    [site] = environment.glob("lib/python*/site-packages")
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return site


def read(environment: Path) -> TargetMachine:
    return read_here(str(environment), {"PATH": os.defpath}, Path("/")).machine


def test_reads_environment(environment: Path) -> None:
    target = read(environment)

    assert target.release == sys.version_info[:2]
    assert target.platform == platform.machine()
    assert target.glibc == os.confstr("CS_GNU_LIBC_VERSION").split()[1]  # type: ignore[union-attr]
    assert target.is_here
    assert target.frameworks == {}


@pytest.mark.parametrize(
    ("stated", "cuda"),
    [("cuda: Optional[str] = '13.0'", "13.0"), ("cuda = None", "cpu"), ("hip = None", "")],
)
def test_reads_cuda_of_torch(stated: str, cuda: str, environment: Path) -> None:
    site = install(environment, "torch", "2.11.0")
    (site / "torch").mkdir(exist_ok=True)
    (site / "torch" / "version.py").write_text(f"from typing import Optional\n{stated}\n")

    target = read(environment)

    assert target.frameworks == {"torch": "2.11.0"}
    assert (target.cuda, target.cuda_of) == (cuda, "torch")


def test_names_missing_interpreter(tmp_path: Path) -> None:
    with pytest.raises(InterpreterNotFoundError) as caught:
        read(tmp_path)

    assert "bin/python" in caught.value.why


def test_reads_machine_on_paper() -> None:
    target = parse_machine(
        "python=3.14t, torch=2.11,cuda=13.0,arch=sm_90,driver=580,platform=arm64"
    )

    assert target == TargetMachine(
        python="3.14",
        is_free_threaded=True,
        platform="aarch64",
        driver="580",
        archs=("90",),
        cuda="13.0",
        frameworks={"torch": "2.11"},
    )
    assert target.abi == "cp314t"


def environment_of(implementation: str, suffix: str) -> PythonEnvironment:
    return PythonEnvironment(
        python=Path("/opt/bin/python"),
        version="3.10.14",
        prefix=Path("/opt"),
        sites=(),
        suffixes=(suffix,),
        is_conda=False,
        markers={"implementation_name": implementation, "platform_machine": "x86_64"},
        distributions={},
    )


def test_knows_pypy_by_its_abi(monkeypatch: pytest.MonkeyPatch) -> None:
    pypy = environment_of("pypy", ".pypy310-pp73-x86_64-linux-gnu.so")
    monkeypatch.setattr(environment_facts, "read_environment", lambda *_: pypy)

    target = read_here(sys.executable, {"PATH": os.defpath}, Path("/")).machine

    assert (target.interpreter, target.abi) == ("pp310", "pypy310_pp73")


def test_refuses_other_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        environment_facts, "read_environment", lambda *_: environment_of("graalpy", ".graalpy.so")
    )

    with pytest.raises(
        InterpreterNotFoundError, match="is graalpy, for which cuwheel can't choose wheels"
    ):
        read_here(sys.executable, {"PATH": os.defpath}, Path("/"))


@pytest.mark.parametrize(
    ("paper", "facts"),
    [
        ("python=pypy3.10", {"python": "3.10", "interpreter": "pp310", "abi": "pypy310_pp73"}),
        ("python=3.12,cuda=13", {"cuda": "13"}),
        ("python=3.13.1t", {"python": "3.13.1", "is_free_threaded": True, "abi": "cp313t"}),
        *((f"python=3.12,arch={arch}", {"archs": ("90",)}) for arch in ("9.0", "sm_90", "sm90")),
        ("python=3.12,torch=2.11.0+cu130", {"frameworks": {"torch": "2.11.0+cu130"}}),
        ("python=3.12,torch=2.12.0.dev20260101", {"frameworks": {"torch": "2.12.0.dev20260101"}}),
        ("python=3.12,cuda=12.8.1", {"cuda": "12.8"}),
    ],
)
def test_reads_paper_as_people_write_it(paper: str, facts: dict[str, object]) -> None:
    target = parse_machine(paper)

    assert {name: getattr(target, name) for name in facts} == facts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("torch=2.11", "names no Python"),
        ("python=3.12,pyton=3", 'did you mean "python"'),
        ("python=3.12,python=3.13", "names python twice"),
        ("python=2.7", "python is written 3.12"),
        ("python=3.12,cuda=cu130", "cuda is written 13.0, 13 or cpu"),
        ("python=3.12,torch=2", "torch is written 2.11, 2.11.0 or 2.11.0+cu130"),
        ("python=3.12,arch=hopper", "arch is written 90"),
        ("python=3.12,arch=80,90", 'says "90": it has no name'),
        ("python=3.12,glibc=new", "glibc is written 2.36"),
        ("python=3.12,platform=win_amd64", "platform is written x86_64, aarch64"),
        ("python=3.12 torch=2.9,cuda=x,", "python is written 3.12"),
        ("", "names no Python"),
    ],
)
def test_refuses_malformed_paper(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_machine(text)

    assert words in f"{caught.value.what}: {caught.value.why}"
    assert parse_machine(caught.value.fix.split('"')[1]).release == (3, 12)


def test_fix_of_paper_keeps_what_is_right() -> None:
    with pytest.raises(UsageError) as caught:
        parse_machine("python=3.13,torch=2.9,glibc=x,gpu=H100,driver=580")

    assert caught.value.fix == 'write --for "python=3.13,torch=2.9,driver=580,glibc=2.36"'


@pytest.mark.parametrize(
    ("torch", "abi"), [("2.5.1", False), ("2.5.1+cu124", False), ("2.8.0", True), ("9.9", None)]
)
def test_knows_string_abi_of_releases(torch: str, abi: bool | None) -> None:  # noqa: FBT001
    assert parse_machine(f"python=3.12,torch={torch.split('+', maxsplit=1)[0]}").cxx11_abi is abi
