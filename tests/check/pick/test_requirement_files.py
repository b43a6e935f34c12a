"""Files of requirements from outside: what is read, what is refused, and what an error quotes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.check.pick.requirement_files import read_requirement_file


def _file(folder: Path, text: str, name: str = "requirements.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def _refusal(path: Path) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read_requirement_file(path)
    return caught.value


def test_reads_requirements_indexes_and_constraints(tmp_path: Path) -> None:
    _file(
        tmp_path, 'numpy<2  # old\nscipy<2; python_version < "3.12"\n--pre\n-c more.txt\n', "c.txt"
    )
    _file(tmp_path, "torch<2.12 --hash=sha256:00\n", "more.txt")
    path = _file(tmp_path, "toy \\\n>=1\n-c c.txt\n-f http://[::1]:8080/wheels\n-f wheels\n")

    content = read_requirement_file(path)

    assert [str(each) for each in content.requirements] == ["toy>=1"]
    assert content.constraints == ["numpy<2", 'scipy<2; python_version < "3.12"', "torch<2.12"]
    assert content.indexes == ["http://[::1]:8080/wheels", (tmp_path / "wheels").as_uri()]


def test_never_quotes_an_environment(tmp_path: Path) -> None:
    """The kernel's file of a process's variables is regular, and one line."""
    path = _file(tmp_path, "")
    variables = {"A_TOKEN": "geheim", "UV_INDEX": "https://me:geheim@host.invalid/"}
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=variables
    ) as process:
        for option in ("-r", "-c"):
            path.write_text(f"{option} /proc/{process.pid}/environ\n")
            error = _refusal(path)

            assert "zero bytes" in error.why
            assert "geheim" not in f"{error.what} {error.why} {error.fix}"
        process.communicate(b"\n")


@pytest.mark.parametrize("option", ["-r", "-c", ""])
def test_quotes_little_and_no_secrets(option: str, tmp_path: Path) -> None:
    url = "https://me:geheim@host.invalid/toy.whl?token=geheim"
    bad = _file(tmp_path, f"{url} \x1b[31m {'x' * 5000}\n", "bad.txt")
    path = _file(tmp_path, f"{option} bad.txt\n") if option else bad

    error = _refusal(path)

    text = f"{error.what} {error.why} {error.fix}"
    assert "https://host.invalid/toy.whl" in text
    assert "geheim" not in text
    assert text.isprintable()
    assert len(text) < len(str(path)) + 300


@pytest.mark.parametrize("device", ["fifo", "/dev/zero"])
@pytest.mark.parametrize("option", ["-r", "-c"])
def test_refuses_what_never_ends(device: str, option: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    assert "regular file" in _refusal(_file(tmp_path, f"toy\n{option} {device}\n")).why


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://evil.invalid/simple",
        "--extra-index-url=https://evil.invalid/simple",
        "-i https://evil.invalid/simple",
        "-f https://evil.invalid/",
        "--find-links https://evil.invalid/",
        "-r more.txt",
        "-e .",
        "-ehttps://me:geheim@evil.invalid/",
        "-\\\ne .",
    ],
)
def test_refuses_options_in_constraints(line: str, tmp_path: Path) -> None:
    constraints = _file(tmp_path, f"numpy<2\n{line}\n", "c.txt")

    error = _refusal(_file(tmp_path, "toy\n-c c.txt\n"))

    assert error.what.startswith(f"{constraints}, line 2, has -")
    assert "geheim" not in error.what


def test_refuses_address_in_constraints(tmp_path: Path) -> None:
    _file(tmp_path, "numpy @ https://evil.invalid/numpy-1.0-py3-none-any.whl\n", "c.txt")

    assert "numpy with an address" in _refusal(_file(tmp_path, "toy\n-c c.txt\n")).what


@pytest.mark.parametrize("option", ["-r", "-c"])
def test_refuses_address_of_a_file(option: str, tmp_path: Path) -> None:
    path = _file(tmp_path, f"toy\n{option} https://me:geheim@host.invalid/c.txt\n")

    error = _refusal(path)

    assert error.what == f"{path}, line 2, names https://host.invalid/c.txt, an address"


@pytest.mark.parametrize("address", ["http://[::1", "http://me:geheim@host.invalid:port/"])
def test_names_place_of_malformed_address(address: str, tmp_path: Path) -> None:
    path = _file(tmp_path, f"toy\n\n-f {address}\n")

    error = _refusal(path)

    assert f"-f in {path}, line 3, is http://" in error.what
    assert "geheim" not in error.what


def test_refuses_deep_nesting(tmp_path: Path) -> None:
    path = _file(tmp_path, f"toy; {'(' * 5000}os_name == 'posix'{')' * 5000}\n")

    assert "nested too deeply" in _refusal(path).why
