from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.cross.target_root import oldest_served, read_target_root
from cuwheel.errors import TargetRootError
from cuwheel.model.platform import AARCH64
from tests.support.foreign import write_python

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.workspace.job import TargetRoot


def read(folder: Path | None, release: str = "3.11") -> TargetRoot:
    return read_target_root(folder, AARCH64, release)


def refused(folder: Path | None, release: str = "3.11") -> TargetRootError:
    with pytest.raises(TargetRootError) as caught:
        read(folder, release)
    return caught.value


def test_finds_python_of_a_distribution(tmp_path: Path) -> None:
    usr = write_python(tmp_path / "usr")

    found = read(tmp_path)

    assert (str(found.python), found.soabi) == (
        "/usr/bin/python3.11",
        "cpython-311-aarch64-linux-gnu",
    )
    triplet = usr / "include" / "aarch64-linux-gnu" / "python3.11"
    assert found.headers == (triplet, usr / "include" / "python3.11")


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


def test_says_that_none_was_named() -> None:
    error = refused(None)

    assert error.why == "neither --target-root nor CUWHEEL_TARGET_ROOT names one"
    assert "docs/how-to/arm64.md" in error.fix


def test_says_that_it_is_no_folder(tmp_path: Path) -> None:
    assert refused(tmp_path / "none").why == f"{tmp_path / 'none'} is not a folder"


def test_names_the_machine_of_another_root(tmp_path: Path) -> None:
    write_python(tmp_path / "usr", triplet="x86_64-linux-gnu")

    assert refused(tmp_path).why == "it has Python 3.11 for x86_64-linux-gnu"


def test_names_the_python_that_is_there(tmp_path: Path) -> None:
    write_python(tmp_path / "usr")

    error = refused(tmp_path, "3.12")

    assert error.why == "it has Python 3.11 for aarch64-linux-gnu"
    assert error.fix.startswith("build for the one it has, `-- --python 3.11`, or make one")


def test_says_where_it_has_looked(tmp_path: Path) -> None:
    assert refused(tmp_path).why == ("there is none in usr, usr/local, opt/python/cp311-cp311")


def test_says_that_headers_are_missing(tmp_path: Path) -> None:
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
        (("3.9",), "3.10"),  # it serves no wheel; reading the root says what is missing
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
