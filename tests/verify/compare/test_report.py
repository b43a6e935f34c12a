from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import rich.console

from cuwheel.system.output.documents import as_line
from cuwheel.verify.compare.differences import CAUSES, Comparison, Difference, Location, Side
from cuwheel.verify.compare.report import comparison_document, demangle, print_comparison
from tests.support.documents import read_document

if TYPE_CHECKING:
    import pytest

_A = Side(file_name="a.whl", sha256="a" * 64, size=1000)
_B = Side(file_name="b.whl", sha256="b" * 64, size=1001)
_KERNEL = Difference(
    location=Location(
        member="pkg/_C.so", section=".nv_fatbin", fatbin=2, code="SASS sm_90", part=".text",
        kernel="_Z5scalePfi",
    ),
    fact="1 of 24 instructions differ",
)  # fmt: skip
_PATH = Difference(
    location=Location(member="pkg/_C.so", section=".rodata"),
    fact="a text differs",
    a="/a/x.cu",
    b="/b/x.cu",
    causes=("build-path",),
)
_RECORD = Difference(
    location=Location(member="pkg.dist-info/RECORD"), fact="1 row", causes=("record",)
)


def _comparison(*differences: Difference, b: Side = _B) -> Comparison:
    return Comparison(a=_A, b=b, differences=differences)


def _printed(comparison: Comparison, **options: Any) -> str:
    stream = io.StringIO()
    print_comparison(comparison, rich.console.Console(file=stream, **options))
    return stream.getvalue()


def test_says_that_bytes_are_the_same() -> None:
    text = _printed(_comparison(b=_A), width=200)

    assert text.splitlines()[-1] == f"the same bytes: sha256 {'a' * 64}"
    assert "why" not in text


def test_names_kernel_as_source_does_and_cause_with_remedy() -> None:
    lines = _printed(_comparison(_KERNEL, _PATH, _RECORD), width=200).splitlines()

    where = "    .nv_fatbin, fat binary 2, SASS sm_90, scale(float*, int), .text"
    assert f"{where}: 1 of 24 instructions differ" in lines
    assert lines[lines.index("  cause: build-path") + 2 :][:2] == [
        "      first   /a/x.cu",
        "      second  /b/x.cu",
    ]
    assert f"      to fix  {CAUSES['build-path'].remedy}" in lines
    assert lines[-1] == "not the same bytes: 3 differences, 1 of unknown cause"


def test_keeps_what_only_follows_apart() -> None:
    lines = _printed(_comparison(_PATH, _RECORD), width=200).splitlines()

    start = lines.index("consequences of other differences")
    assert lines[start + 1] == f"    {CAUSES['record'].text}: pkg.dist-info/RECORD"
    assert "pkg.dist-info/RECORD" not in "".join(lines[:start])
    assert lines[-1].endswith("none of unknown cause")


def test_shows_first_of_many() -> None:
    text = _printed(_comparison(*[_PATH] * 30), width=200)

    assert text.count("/a/x.cu") == 8
    assert "and 22 more like these" in text


def test_wraps_on_terminal() -> None:
    text = _printed(_comparison(_KERNEL, _PATH), width=60, force_terminal=True, color_system=None)

    assert max(map(len, text.splitlines())) <= 60


def test_data_can_be_written_as_json() -> None:
    data = read_document(
        as_line(comparison_document(_comparison(_KERNEL, _PATH, _RECORD))), "comparison"
    )

    assert data["is_same"] is False
    assert data["unexplained"] == 1
    assert data["causes"]["build-path"]["count"] == 1
    assert data["differences"][0]["kernel"] == "_Z5scalePfi"
    assert [one["is_consequence"] for one in data["differences"]] == [False, False, True]


def test_leaves_names_where_program_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.defpath", "/nonexistent")

    assert demangle(["_Z5scalePfi", ""]) == {"_Z5scalePfi": "_Z5scalePfi"}


def test_bears_any_number_of_long_names() -> None:
    """c++filt gives back as it is what is longer than 1024 characters."""
    long = [f"_Z{length}{'a' * length}v" for length in (*range(5000, 5500), 200_000)]

    names = demangle(["_Z5scalePfi", *long])

    assert names == {"_Z5scalePfi": "scale(float*, int)", **{name: name for name in long}}
