from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import TargetRootError
from cuwheel.base.system.process import run
from cuwheel.build.recipe.platform import AARCH64
from cuwheel.build.toolchains.cross.target_root import (
    HEADERS,
    oldest_served,
    python_variables,
    read_target_root,
    write_python_settings,
)
from cuwheel.build.workspace.job import TargetRoot
from tests.support.packages.foreign_platform import write_python

_ASK = """
import json, sysconfig
names = ("EXT_SUFFIX", "SOABI", "INCLUDEPY")
print(json.dumps([sysconfig.get_platform(), *map(sysconfig.get_config_var, names)]))
"""


def read(folder: Path | None, release: str = "3.11") -> TargetRoot:
    return read_target_root(folder, AARCH64, release)


def refused(folder: Path | None, release: str = "3.11") -> TargetRootError:
    with pytest.raises(TargetRootError) as caught:
        read(folder, release)
    return caught.value


def test_finds_python_of_a_distribution(tmp_path: Path) -> None:
    usr = write_python(tmp_path / "usr")

    root = read(tmp_path)

    assert (str(root.python), root.soabi) == (
        "/usr/bin/python3.11",
        "cpython-311-aarch64-linux-gnu",
    )
    triplet = usr / "include" / "aarch64-linux-gnu" / "python3.11"
    assert root.headers == (triplet, usr / "include" / "python3.11")


@pytest.mark.parametrize("place", ["usr/local", "opt/python/cp311-cp311"])
def test_finds_python_of_a_manylinux_image(place: str, tmp_path: Path) -> None:
    write_python(tmp_path / place)

    assert str(read(tmp_path).python) == f"/{place}/bin/python3.11"


def test_finds_free_threaded_python(tmp_path: Path) -> None:
    write_python(tmp_path / "opt/python/cp313-cp313t", "3.13t")

    assert read(tmp_path, "3.13t").soabi == "cpython-313t-aarch64-linux-gnu"


def test_another_header_is_another_root(tmp_path: Path) -> None:
    usr = write_python(tmp_path / "usr")
    before = read(tmp_path).fingerprint

    (usr / "include/python3.11/Python.h").write_text("#define OTHER\n")

    assert read(tmp_path).fingerprint != before


def test_fingerprint_names_no_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_python(tmp_path / name / "usr")

    assert read(tmp_path / "a").fingerprint == read(tmp_path / "b").fingerprint


def test_reports_that_none_was_named() -> None:
    error = refused(None)

    assert error.why == "neither --target-root nor CUWHEEL_TARGET_ROOT names one"
    assert "docs/how-to/arm64.md" in error.fix


def test_reports_that_it_is_no_folder(tmp_path: Path) -> None:
    assert refused(tmp_path / "none").why == f"{tmp_path / 'none'} is not a folder"


def test_names_the_machine_of_another_root(tmp_path: Path) -> None:
    write_python(tmp_path / "usr", triplet="x86_64-linux-gnu")

    assert refused(tmp_path).why == "it has Python 3.11 for x86_64-linux-gnu"


def test_names_the_python_that_is_there(tmp_path: Path) -> None:
    write_python(tmp_path / "usr")

    error = refused(tmp_path, "3.12")

    assert error.why == "it has Python 3.11 for aarch64-linux-gnu"
    assert error.fix.startswith("build for the one it has, `-- --python 3.11`, or make one")


def test_reports_where_it_has_looked(tmp_path: Path) -> None:
    assert refused(tmp_path).why == ("there is none in usr, usr/local, opt/python/cp311-cp311")


def test_reports_that_headers_are_missing(tmp_path: Path) -> None:
    usr = write_python(tmp_path / "usr")
    (usr / "include/python3.11/Python.h").unlink()

    error = refused(tmp_path)

    assert error.why.endswith("/usr/include/python3.11/Python.h doesn't exist")
    assert "libpython3-dev" in error.fix


@pytest.mark.parametrize("text", ["import os\n", "build_time_vars = [1]\n", "build_time_vars = {"])
def test_runs_nothing_of_the_settings(text: str, tmp_path: Path) -> None:
    usr = write_python(tmp_path / "usr")
    [settings] = usr.glob("lib/python3.11/_sysconfigdata_*.py")
    settings.write_text(text)

    assert refused(tmp_path).what == f"{settings} can't be read"


@pytest.mark.parametrize(
    ("releases", "chosen"),
    [
        (("3.10", "3.11"), "3.10"),
        (("3.13", "3.11"), "3.11"),
        (("3.9",), "3.10"),  # it serves no wheel; the error comes from reading the root
        (("3.11t", "3.12"), "3.12"),
        ((), "3.10"),
    ],
)
def test_chooses_python_of_the_root_for_a_stable_abi(
    releases: tuple[str, ...], chosen: str, tmp_path: Path
) -> None:
    for release in releases:
        write_python(tmp_path / "usr", release)

    assert oldest_served(tmp_path, AARCH64, "3.10") == chosen


@pytest.mark.parametrize("folder", [None, "none"])
def test_chooses_oldest_python_without_a_root(folder: str | None, tmp_path: Path) -> None:
    root = tmp_path / folder if folder else None

    assert oldest_served(root, AARCH64, "3.10") == "3.10"


def test_takes_no_python_of_another_machine_for_a_stable_abi(tmp_path: Path) -> None:
    write_python(tmp_path / "usr", "3.11", triplet="x86_64-linux-gnu")

    assert oldest_served(tmp_path, AARCH64, "3.10") == "3.10"


def read_settings(folder: Path, root: Path) -> Any:
    write_python(root / "usr")
    folder.mkdir()
    write_python_settings(folder, read_target_root(root, AARCH64, "3.11"))
    variables = {"PATH": os.defpath, **python_variables(folder, AARCH64)}
    return json.loads(run([sys.executable, "-c", _ASK], env=variables).output)


def test_python_answers_as_the_other_machines_would(tmp_path: Path) -> None:
    settings = tmp_path / "made"

    platform, suffix, soabi, headers = read_settings(settings, tmp_path / "root")

    assert platform == "linux-aarch64"
    assert suffix == ".cpython-311-aarch64-linux-gnu.so"
    assert soabi == "cpython-311-aarch64-linux-gnu"
    assert headers == str(settings / HEADERS)


def test_headers_lie_in_one_folder(tmp_path: Path) -> None:
    """Debian has a file for all machines that includes one of each."""
    read_settings(tmp_path / "made", tmp_path / "root")

    headers = tmp_path / "made" / HEADERS

    assert (headers / "Python.h").is_file()
    assert (headers / "pyconfig.h").read_text() == "#define SIZEOF_LONG 8\n"


def test_settings_move_with_their_folder(tmp_path: Path) -> None:
    """A sandbox shows them at another path than the one at which they were written."""
    read_settings(tmp_path / "made", tmp_path / "root")
    (tmp_path / "made").rename(tmp_path / "seen")
    variables = {"PATH": os.defpath, **python_variables(tmp_path / "seen", AARCH64)}

    values = json.loads(run([sys.executable, "-c", _ASK], env=variables).output)

    assert values[-1] == str(tmp_path / "seen" / "include")
