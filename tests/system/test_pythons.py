from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

import pytest

from cuwheel.errors import InterpreterNotFoundError
from cuwheel.system.pythons import Interpreter, _describe_store, find_python, own_python
from tests.support.ordinary_user import as_ordinary_user

_REAL = Path(os.path.realpath(sys.executable))
_VERSION = platform.python_version()
_RELEASE = ".".join(_VERSION.split(".")[:2])

# What pyenv's shim does when no chosen version has the program.
_SHIM = """#!/bin/sh
echo "pyenv: {name}: command not found" >&2
echo "The '{name}' command exists in these Python versions:" >&2
exit 127
"""


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """An environment in which no Python is to be found."""
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


def test_finds_python_of_nox_first(places: dict[str, str]) -> None:
    assert find_python(_RELEASE, places) == own_python()


def test_knows_its_headers() -> None:
    python = own_python()

    assert (python.version, python.release) == (_VERSION, _RELEASE)
    assert python.include.name == f"python{_RELEASE}"


def test_takes_path(tmp_path: Path, places: dict[str, str]) -> None:
    path = link_python(tmp_path / "mine" / "py")

    assert find_python(str(path), places).path == path


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
@pytest.mark.parametrize("asked", [_RELEASE, _VERSION])
def test_finds_python_in_its_places(
    tmp_path: Path, places: dict[str, str], name: str, asked: str
) -> None:
    path = link_python(tmp_path / name)
    if name.startswith("home"):
        del places["PYENV_ROOT"], places["UV_PYTHON_INSTALL_DIR"]

    assert find_python(asked, places).path == path


@pytest.mark.usefixtures("nox_python_gone")
def test_skips_shim_that_only_prints_an_error(tmp_path: Path, places: dict[str, str]) -> None:
    name = f"python{_RELEASE}"
    write_program(tmp_path / "bin" / name, _SHIM.format(name=name))
    real = link_python(tmp_path / "pyenv" / "versions" / _VERSION / "bin" / name)

    assert find_python(_RELEASE, places).path == real


def test_names_shim_that_only_prints_an_error(tmp_path: Path, places: dict[str, str]) -> None:
    shim = write_program(tmp_path / "bin" / "python3.99", _SHIM.format(name="python3.99"))

    with pytest.raises(InterpreterNotFoundError) as caught:
        find_python("3.99", places)

    assert (
        f"PATH: {shim}: it exited with status 127: pyenv: python3.99: command not found"
        in caught.value.why
    )


def test_names_every_place_it_looked_at(
    tmp_path: Path, places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "project" / "envs" / "python399" / "conda-lock.yml"
    lock.parent.mkdir(parents=True)
    lock.touch()
    monkeypatch.setenv("CUWHEEL_PROJECT", str(tmp_path / "project"))
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


def test_says_which_places_are_not_there(tmp_path: Path, places: dict[str, str]) -> None:
    with pytest.raises(InterpreterNotFoundError) as caught:
        find_python("3.99", places)

    assert f"pyenv: {tmp_path}/pyenv/versions doesn't exist" in caught.value.why
    assert "uv python install 3.99" in caught.value.fix


@pytest.mark.usefixtures("nox_python_gone")
def test_starts_no_program_of_any_release_before_those_that_say_theirs(
    tmp_path: Path, places: dict[str, str]
) -> None:
    started = tmp_path / "started"
    write_program(tmp_path / "bin" / "python3", f"#!/bin/sh\ntouch {started}\nexit 1\n")
    link_python(tmp_path / "uv" / f"cpython-{_VERSION}" / "bin" / f"python{_RELEASE}")

    find_python(_RELEASE, places)

    assert not started.exists()


@pytest.mark.usefixtures("nox_python_gone")
def test_takes_newest_patch_release(tmp_path: Path, places: dict[str, str]) -> None:
    for patch in (9, 10):
        version = f"{_RELEASE}.{patch}"
        link_python(tmp_path / "pyenv" / "versions" / version / "bin" / f"python{_RELEASE}")

    found = find_python(_RELEASE, places)

    assert found.path.parents[1].name == f"{_RELEASE}.10"


def test_refuses_path_without_python(tmp_path: Path, places: dict[str, str]) -> None:
    with pytest.raises(InterpreterNotFoundError, match="is not a working Python"):
        find_python(str(tmp_path / "python"), places)


def test_shows_little_of_a_long_answer(tmp_path: Path, places: dict[str, str]) -> None:
    path = write_program(tmp_path / "python", "#!/bin/sh\necho refused 'what it got:' $3; exit 2\n")

    with pytest.raises(InterpreterNotFoundError) as caught:
        find_python(str(path), places)

    assert caught.value.why.startswith("it exited with status 2: refused what it got:")
    assert len(caught.value.why) < 150


@pytest.mark.parametrize("answer", ["", "Hello", '{"no": "version"'])
def test_refuses_program_that_is_no_python(
    tmp_path: Path, places: dict[str, str], answer: str
) -> None:
    path = write_program(tmp_path / "python", f"#!/bin/sh\necho '{answer}'\n")

    with pytest.raises(InterpreterNotFoundError) as caught:
        find_python(str(path), places)

    assert caught.value.why == "its answer makes no sense"


def test_refuses_other_implementation(tmp_path: Path, places: dict[str, str]) -> None:
    told = '{"implementation": "pypy", "version": "3.10.14"}'
    path = write_program(tmp_path / "pypy", f"#!/bin/sh\necho '{told}'\n")

    with pytest.raises(InterpreterNotFoundError) as caught:
        find_python(str(path), places)

    assert caught.value.why.startswith("it is pypy")


def test_release_is_two_numbers() -> None:
    here = Path()
    python = Interpreter(path=here, version="3.13.0rc1", abi="", prefix=here, include=here)

    assert python.release == "3.13"


def write_free_threaded(path: Path, version: str = "3.14.2") -> Path:
    """A stand-in that answers as a free-threaded Python does."""
    abi = f"cpython-{''.join(version.split('.')[:2])}t-x86_64-linux-gnu"
    answer = {
        "executable": str(path),
        "version": version,
        "implementation": "cpython",
        "abi": abi,
        "prefix": "/nowhere",
        "include": "/nowhere/include",
    }
    return write_program(path, f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\n")


@pytest.mark.usefixtures("nox_python_gone")
@pytest.mark.parametrize("asked", ["3.14t", "3.14.2t"])
@pytest.mark.parametrize(
    "name",
    ["bin/python3.14t", "bin/python3", "uv/cpython-3.14.2+freethreaded-linux/bin/python3.14t"],
)
def test_finds_free_threaded_python(
    tmp_path: Path, places: dict[str, str], asked: str, name: str
) -> None:
    path = write_free_threaded(tmp_path / name)

    found = find_python(asked, places)

    assert (found.path, found.release, found.version) == (path, "3.14t", "3.14.2")


@pytest.mark.usefixtures("nox_python_gone")
@pytest.mark.parametrize("asked", ["3.14", "3.14.2"])
def test_takes_no_free_threaded_python_for_the_other(
    tmp_path: Path, places: dict[str, str], asked: str
) -> None:
    path = write_free_threaded(tmp_path / "bin" / "python3.14")

    with pytest.raises(InterpreterNotFoundError) as caught:
        find_python(asked, places)

    assert f"{path} is 3.14.2t" in caught.value.why


def test_store_of_another_user_is_no_fault() -> None:
    """As `PYENV_ROOT` is that of who called su(1)."""

    def look() -> None:
        said = _describe_store("pyenv", Path("/proc/1/root"))
        assert said == "pyenv: /proc/1/root doesn't exist, or this user can't read it"

    assert as_ordinary_user(look) == ""
