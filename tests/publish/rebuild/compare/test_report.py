from __future__ import annotations

import io
from pathlib import Path

import pytest
import rich.console

from cuwheel.base.system.output.documents import as_line
from cuwheel.publish.rebuild.compare.differences import (
    DifferenceData,
    Location,
    Side,
    WheelComparison,
)
from cuwheel.publish.rebuild.compare.report import (
    demangle,
    keep_diffoscope,
    print_comparison,
    verdict,
)
from tests.support.documents import read_document
from tests.support.golden import Golden

_A = Side(file_name="a.whl", sha256="a" * 64, size=1000)
_B = Side(file_name="b.whl", sha256="b" * 64, size=1001)
_KERNEL = Location(
        member="pkg/_C.so", section=".nv_fatbin", fatbin=2, code="SASS sm_90", part=".text",
        kernel="_Z5scalePfi",
    ).differs("1 of 24 instructions differ")  # fmt: skip
_PATH = Location(member="pkg/_C.so", section=".rodata").differs(
    "a text differs", a="/a/x.cu", b="/b/x.cu", causes=("build-path",)
)
_RECORD = Location(member="pkg.dist-info/RECORD").differs("1 row", causes=("record",))


def _comparison(*differences: DifferenceData, b: Side = _B) -> WheelComparison:
    return WheelComparison(a=_A, b=b, differences=differences)


def test_reports_that_bytes_are_the_same() -> None:
    assert verdict(_comparison(b=_A)) == f"the same bytes: sha256 {'a' * 64}"


def test_prints_differences_with_their_causes(golden: Golden) -> None:
    stream = io.StringIO()

    print_comparison(
        _comparison(_KERNEL, *[_PATH] * 30, _RECORD), rich.console.Console(file=stream, width=200)
    )

    golden.check("compare/two-wheels.txt", stream.getvalue())


def test_data_can_be_written_as_json() -> None:
    data = read_document(as_line(_comparison(_KERNEL, _PATH, _RECORD)), "comparison")

    assert data["is_same"] is False
    assert data["unexplained"] == 1
    assert data["causes"]["build-path"]["count"] == 1
    assert data["differences"][0]["kernel"] == "_Z5scalePfi"
    assert [difference["is_consequence"] for difference in data["differences"]] == [
        False,
        False,
        True,
    ]


def test_leaves_names_where_program_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.defpath", "/nonexistent")

    assert demangle(["_Z5scalePfi", ""]) == {"_Z5scalePfi": "_Z5scalePfi"}


def test_bears_any_number_of_long_names() -> None:
    """c++filt gives back as it is what is longer than 1024 characters."""
    long = [f"_Z{length}{'a' * length}v" for length in (*range(5000, 5500), 200_000)]

    names = demangle(["_Z5scalePfi", *long])

    assert names == {"_Z5scalePfi": "scale(float*, int)", **{name: name for name in long}}


# Takes the options that it is given as diffoscope does, and answers as it does.
_SCRIPT = """#!/bin/sh
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
    path.write_text(_SCRIPT % end)
    path.chmod(0o755)
    return str(folder)


def test_shows_how_to_get_it(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    note = keep_diffoscope(*wheels, tmp_path / "report", search_path=str(tmp_path))

    assert "uv tool install diffoscope" in note
    assert "\n" not in note
    assert not (tmp_path / "report").exists()


def test_keeps_reports(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    program = _program(tmp_path / "bin", "exit 1")

    keep_diffoscope(*wheels, tmp_path / "deep" / "report", search_path=program)

    reports = {path.name: path.read_text() for path in (tmp_path / "deep" / "report").iterdir()}
    assert reports == {"diffoscope.txt": "a text\n", "diffoscope.html": "a page\n"}


@pytest.mark.parametrize(
    ("script", "note"),
    [
        (
            "#!/bin/sh\necho 'no readelf'; exit 2\n",
            "diffoscope failed with status 2: no readelf",
        ),
        ("#!/nonexistent/python\n", "diffoscope can't be run: "),
    ],
)
def test_reports_failure(script: str, note: str, wheels: tuple[Path, Path], tmp_path: Path) -> None:
    program = _program(tmp_path / "bin", "exit 1")
    (tmp_path / "bin" / "diffoscope").write_text(script)

    result = keep_diffoscope(*wheels, tmp_path / "report", search_path=program)

    assert result.startswith(note)
