from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

import pytest

from cuwheel.base.errors import InterpreterNotFoundError
from cuwheel.base.system.pythons import (
    find_python,
    own_python,
    starts,
)
from tests.support.machines.ordinary_user import as_ordinary_user

_REAL = Path(os.path.realpath(sys.executable))
_VERSION = platform.python_version()
_RELEASE = ".".join(_VERSION.split(".")[:2])

# pyenv's shim when no chosen version has the program.
_SHIM = """#!/bin/sh
echo "pyenv: {name}: command not found" >&2
echo "The '{name}' command exists in these Python versions:" >&2
exit 127
"""


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """An environment without any Python."""
    return {
        "HOME": str(tmp_path / "home"),
        "PATH": str(tmp_path / "bin"),
        "PYENV_ROOT": str(tmp_path / "pyenv"),
        "UV_PYTHON_INSTALL_DIR": str(tmp_path / "uv"),
    }


@pytest.fixture
def nox_python_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_base_executable", "/nowhere/python")


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def link_python(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(_REAL)
    path.with_name("python").symlink_to(_REAL)
    return path


def test_knows_its_headers() -> None:
    python = own_python()

    assert (python.version, python.release) == (_VERSION, _RELEASE)
    assert python.include.name == f"python{_RELEASE}"


def test_takes_path_relative_to_here(
    tmp_path: Path, places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    link_python(tmp_path / "mine" / "py")
    monkeypatch.chdir(tmp_path)

    assert find_python("mine/py", places).path == tmp_path / "mine" / "py"


@pytest.mark.usefixtures("nox_python_gone")
@pytest.mark.parametrize(
    "name",
    [
        f"bin/python{_RELEASE}",
        "bin/python3",
        f"pyenv/versions/{_VERSION}/bin/python{_RELEASE}",
        f"home/.pyenv/versions/{_VERSION}/bin/python{_RELEASE}",
        f"uv/cpython-{_VERSION}-linux-x86_64-gnu/bin/python{_RELEASE}",
        f"home/.local/share/uv/python/cpython-{_VERSION}-linux/bin/python{_RELEASE}",
    ],
)
@pytest.mark.parametrize("request_", [_RELEASE, _VERSION])
def test_finds_python_in_its_places(
    tmp_path: Path, places: dict[str, str], name: str, request_: str
) -> None:
    path = link_python(tmp_path / name)
    if name.startswith("home"):
        del places["PYENV_ROOT"], places["UV_PYTHON_INSTALL_DIR"]

    assert find_python(request_, places).path == path


@pytest.mark.usefixtures("nox_python_gone")
def test_skips_shim_that_only_prints_an_error(tmp_path: Path, places: dict[str, str]) -> None:
    name = f"python{_RELEASE}"
    write_program(tmp_path / "bin" / name, _SHIM.format(name=name))
    real = link_python(tmp_path / "pyenv" / "versions" / _VERSION / "bin" / name)

    assert find_python(_RELEASE, places).path == real


@pytest.mark.usefixtures("nox_python_gone")
def test_finds_pyenv_of_another_home_by_its_shims(tmp_path: Path, places: dict[str, str]) -> None:
    pyenv = tmp_path / "elsewhere"
    real = link_python(pyenv / "versions" / _VERSION / "bin" / f"python{_RELEASE}")
    shim = write_program(pyenv / "shims" / real.name, _SHIM.format(name=real.name))
    environ = {"HOME": places["HOME"], "PATH": str(shim.parent)}

    assert find_python(_RELEASE, environ).path == real


def test_shim_that_runs_nothing_does_not_start(tmp_path: Path) -> None:
    shim = write_program(tmp_path / "python3.9", _SHIM.format(name="python3.9"))

    assert not starts(shim, {})
    assert starts(_REAL, {})


def test_names_shim_that_only_prints_an_error(tmp_path: Path, places: dict[str, str]) -> None:
    shim = write_program(tmp_path / "bin" / "python3.99", _SHIM.format(name="python3.99"))

    with pytest.raises(InterpreterNotFoundError) as caught:
        find_python("3.99", places)

    assert (
        f"PATH: {shim}: it exited with status 127: pyenv: python3.99: command not found"
        in caught.value.why
    )


def test_names_every_searched_place(tmp_path: Path, places: dict[str, str]) -> None:
    lock = tmp_path / "project" / "envs" / "python399" / "conda-lock.yml"
    lock.parent.mkdir(parents=True)
    lock.touch()
    places["CUWHEEL_PROJECT"] = str(tmp_path / "project")
    for name in ("bin/python3", "pyenv/versions/3.1.4/bin/python3.1", "uv/cpython-3.2/bin/x"):
        link_python(tmp_path / name)

    with pytest.raises(InterpreterNotFoundError) as caught:
        find_python("3.99", places)

    assert [line.strip() for line in caught.value.why.splitlines()[1:]] == [
        f"the Python of nox: {own_python().path} is {_VERSION}",
        f"PATH: {tmp_path}/bin/python3 is {_VERSION}",
        f"PATH: {tmp_path}/bin/python is {_VERSION}",
        f"pyenv: {tmp_path}/pyenv/versions has 3.1.4",
        f"uv: {tmp_path}/uv has cpython-3.2",
        f"conda lock: {lock}",
    ]


def test_names_missing_places(tmp_path: Path, places: dict[str, str]) -> None:
    with pytest.raises(InterpreterNotFoundError) as caught:
        find_python("3.99", places)

    assert f"pyenv: {tmp_path}/pyenv/versions doesn't exist" in caught.value.why
    assert "uv python install 3.99" in caught.value.fix


@pytest.mark.usefixtures("nox_python_gone")
def test_starts_programs_of_any_release_last(tmp_path: Path, places: dict[str, str]) -> None:
    mark = tmp_path / "started"
    write_program(tmp_path / "bin" / "python3", f"#!/bin/sh\ntouch {mark}\nexit 1\n")
    link_python(tmp_path / "uv" / f"cpython-{_VERSION}" / "bin" / f"python{_RELEASE}")

    find_python(_RELEASE, places)

    assert not mark.exists()


@pytest.mark.usefixtures("nox_python_gone")
def test_takes_newest_patch_release(tmp_path: Path, places: dict[str, str]) -> None:
    for patch in (9, 10):
        version = f"{_RELEASE}.{patch}"
        link_python(tmp_path / "pyenv" / "versions" / version / "bin" / f"python{_RELEASE}")

    python = find_python(_RELEASE, places)

    assert python.path.parents[1].name == f"{_RELEASE}.10"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "its answer makes no sense"),
        ("Hello", "its answer makes no sense"),
        ('{"no": "version"', "its answer makes no sense"),
        ('{"implementation": "pypy", "version": "3.10.14"}', "it is pypy"),
    ],
)
def test_refuses_what_is_no_cpython(
    tmp_path: Path, places: dict[str, str], answer: str, why: str
) -> None:
    path = write_program(tmp_path / "python", f"#!/bin/sh\necho '{answer}'\n")

    with pytest.raises(InterpreterNotFoundError) as caught:
        find_python(str(path), places)

    assert caught.value.why.startswith(why)


def write_free_threaded(path: Path, version: str = "3.14.2") -> Path:
    """Write a stand-in for a free-threaded Python."""
    abi = f"cpython-{''.join(version.split('.')[:2])}t-x86_64-linux-gnu"
    answer = {
        "executable": str(path),
        "version": version,
        "implementation": "cpython",
        "abi": abi,
        "prefix": "/nowhere",
        "include": "/nowhere/include",
    }
    return write_program(path, f"#!/bin/sh\n/bin/cat <<'END'\n{json.dumps(answer)}\nEND\n")


@pytest.mark.usefixtures("nox_python_gone")
@pytest.mark.parametrize("request_", ["3.14t", "3.14.2t"])
@pytest.mark.parametrize(
    "name",
    ["bin/python3.14t", "bin/python3", "uv/cpython-3.14.2+freethreaded-linux/bin/python3.14t"],
)
def test_finds_free_threaded_python(
    tmp_path: Path, places: dict[str, str], request_: str, name: str
) -> None:
    path = write_free_threaded(tmp_path / name)

    python = find_python(request_, places)

    assert (python.path, python.release, python.version) == (path, "3.14t", "3.14.2")


@pytest.mark.usefixtures("nox_python_gone")
@pytest.mark.parametrize("request_", ["3.14", "3.14.2"])
def test_takes_no_free_threaded_python_for_the_other(
    tmp_path: Path, places: dict[str, str], request_: str
) -> None:
    path = write_free_threaded(tmp_path / "bin" / "python3.14")

    with pytest.raises(InterpreterNotFoundError) as caught:
        find_python(request_, places)

    assert f"{path} is 3.14.2t" in caught.value.why


def test_store_of_another_user_is_no_fault() -> None:
    """As `PYENV_ROOT` is that of the caller of su(1)."""

    def look() -> None:
        environ = {"PATH": "/none", "PYENV_ROOT": "/proc/1/root"}
        with pytest.raises(InterpreterNotFoundError) as caught:
            find_python("3.99", environ)
        assert "pyenv: /proc/1/root/versions doesn't exist, or this user" in caught.value.why

    assert as_ordinary_user(look) == ""


@pytest.mark.parametrize("has_python", [True, False])
def test_names_the_interpreter_of_a_folder(tmp_path: Path, has_python: bool) -> None:  # noqa: FBT001
    if has_python:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "python").symlink_to(sys.executable)

    with pytest.raises(InterpreterNotFoundError, match="is a folder") as caught:
        find_python(str(tmp_path), {"PATH": os.defpath})

    assert (f"name {tmp_path}/bin/python" in caught.value.fix) is has_python
