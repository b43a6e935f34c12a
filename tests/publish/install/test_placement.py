"""Where wheels' files go in a real environment, and which of them are refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError, UnsafeArchiveError
from cuwheel.check.diagnose.facts.environment import PythonEnvironment, read_environment
from cuwheel.publish.install.contents import owners_of
from cuwheel.publish.install.placement import Occupied, check_placements, place
from tests.support.factories import write_wheel
from tests.support.publish.installations import plant, site_of, uv_environment

DATA = "toy-1.0.data"
PYTHON = "python{}.{}".format(*sys.version_info)
SITE = f"lib/{PYTHON}/site-packages"
FOREIGN = (
    "packaging/__init__.py",
    "Packaging/__init__.py",
    "packaging",
    "packaging/__init__.py/inner.py",
    "notes.txt",
    "sitecustomize.py",
    "usercustomize/__init__.py",
    "toy.pth",
    "distutils-precedence.pth",
    "Toy.py",
    f"{DATA}/purelib/packaging/__init__.py",
    f"{DATA}/platlib/toy.py",
    f"{DATA}/purelib/pip-99.dist-info/METADATA",
    f"{DATA}/data/{SITE}/packaging/__init__.py",
    f"{DATA}/data/lib64/{PYTHON}/site-packages/packaging/__init__.py",
    f"{DATA}/data/{SITE}/sitecustomize.py",
    f"{DATA}/data/pyvenv.cfg",
    f"{DATA}/data/bin/python",
    f"{DATA}/scripts/python3.99",
    f"{DATA}/scripts/pip",
    f"{DATA}/scripts/activate",
    f"{DATA}/scripts/pack",
    "../evil.py",
    "/tmp/evil.py",
    "a/../../evil.py",
    f"{DATA}/data/.cuwheel-install/journal.json",
    f"{DATA}/data/.git/hooks/post-commit",
    f"{DATA}/data/conda-meta/history",
    f"packaging/__pycache__/__init__.{sys.implementation.cache_tag}.pyc",
    f"{DATA}/foo",
    "e\u0301.py",
)
SCRIPTS = ("pip", "python3", "activate", "pack", "../evil", "a/b")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> PythonEnvironment:
    folder = uv_environment(tmp_path_factory.mktemp("placed") / "env")
    plant(folder, "packaging", {"packaging/__init__.py": b"", "../../../bin/pack": b"#!/bin/sh\n"})
    (site_of(folder) / "notes.txt").write_text("a person's own")
    return read_environment(folder / "bin" / "python", {"PATH": os.defpath})


def check(wheels: list[Path], environment: PythonEnvironment, replaced: str = "toy") -> None:
    placements = {wheel: place(wheel, environment) for wheel in wheels}
    occupied = Occupied(owners=owners_of(environment), replaced=replaced)
    check_placements(placements, environment.prefix, occupied)


def toy(folder: Path, files: dict[str, bytes | Path], name: str = "toy") -> Path:
    return write_wheel(folder, files, name=name, version="1.0", tag="py3-none-any")


@pytest.mark.parametrize("name", FOREIGN)
def test_refuses_files_of_others(name: str, tmp_path: Path, environment: PythonEnvironment) -> None:
    wheel = toy(tmp_path, {"toy.py": b"", "\u00e9.py": b"", name: b"evil"})

    with pytest.raises((InstallError, UnsafeArchiveError)) as caught:
        check([wheel], environment)

    assert name.rpartition("/")[2][:4] in caught.value.why


@pytest.mark.parametrize("name", SCRIPTS)
def test_refuses_programs_of_the_environment(
    name: str, tmp_path: Path, environment: PythonEnvironment
) -> None:
    points = f"[console_scripts]\n{name} = toy:main\n".encode()
    wheel = toy(tmp_path, {"toy.py": b"", "toy-1.0.dist-info/entry_points.txt": points})

    with pytest.raises(InstallError) as caught:
        check([wheel], environment)

    assert name in caught.value.why


def test_refuses_what_two_wheels_bring(tmp_path: Path, environment: PythonEnvironment) -> None:
    wheels = [
        toy(tmp_path, {"nvidia/__init__.py": name.encode()}, name) for name in ("toy", "other")
    ]

    with pytest.raises(InstallError, match="without changing other files"):
        check(wheels, environment)


def test_lets_pass_harmless_files(tmp_path: Path, environment: PythonEnvironment) -> None:
    """Namespaces are shared with equal bytes; setuptools brings a `.pth`."""
    points = b"[console_scripts]\ntoy = toy:main\n"
    files = {
        "packaging/__init__.py": b"",
        "packaging/more.py": b"more",
        "packaging/__pycache__/more.cpython-311.pyc": b"",
        "toy-1.0.dist-info/entry_points.txt": points,
        f"{DATA}/headers/toy.h": b"",
        f"{DATA}/data/share/doc/toy": b"",
        f"{DATA}/scripts/toy-run": b"#!python\n",
    }

    check([toy(tmp_path, {**files})], environment)
    check([toy(tmp_path, {"precedence.pth": b""}, "needed")], environment)


def test_puts_headers_where_installers_do(tmp_path: Path, environment: PythonEnvironment) -> None:
    wheel = toy(tmp_path, {f"{DATA}/headers/toy.h": b""})

    paths = [file.path for file in place(wheel, environment).files]

    assert environment.prefix.resolve() / f"include/site/{PYTHON}/toy/toy.h" in paths
