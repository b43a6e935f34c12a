from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.verify.compare.diffoscope import keep_diffoscope

if TYPE_CHECKING:
    from pathlib import Path

# Takes the options that it is given as diffoscope does, and answers as it does.
_STAND_IN = """#!/bin/sh
for word in "$@"; do case "$word" in
--text=*) echo "a text" > "${word#--text=}" ;;
--html=*) echo "a page" > "${word#--html=}" ;;
esac; done
%s
"""


@pytest.fixture
def wheels(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "a.whl", tmp_path / "b.whl"
    for path in paths:
        path.write_bytes(path.name.encode())
    return paths


def _program(folder: Path, end: str) -> str:
    folder.mkdir()
    path = folder / "diffoscope"
    path.write_text(_STAND_IN % end)
    path.chmod(0o755)
    return str(folder)


def test_says_how_to_get_it(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    kept = keep_diffoscope(*wheels, tmp_path / "report", search_path=str(tmp_path))

    assert kept.files == ()
    assert "uv tool install diffoscope" in kept.note
    assert "\n" not in kept.note
    assert not (tmp_path / "report").exists()


def test_keeps_reports(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    program = _program(tmp_path / "bin", "exit 1")

    kept = keep_diffoscope(*wheels, tmp_path / "deep" / "report", search_path=program)

    assert [path.name for path in kept.files] == ["diffoscope.txt", "diffoscope.html"]
    assert [path.read_text() for path in kept.files] == ["a text\n", "a page\n"]


def test_tells_failure_and_goes_on(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    program = _program(tmp_path / "bin", 'echo "readelf: no such file"; exit 2')

    kept = keep_diffoscope(*wheels, tmp_path / "report", search_path=program)

    assert kept.note == "diffoscope failed with status 2: readelf: no such file"


def test_tells_program_that_cannot_be_run(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    program = _program(tmp_path / "bin", "exit 1")
    (tmp_path / "bin" / "diffoscope").write_text("#!/nonexistent/python\n")

    kept = keep_diffoscope(*wheels, tmp_path / "report", search_path=program)

    assert kept.note.startswith("diffoscope can't be run: ")
