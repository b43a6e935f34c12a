"""Comparison of wheels: members, and what the archive notes of them."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import UnsafeArchiveError
from cuwheel.publish.rebuild.compare.wheel import compare
from tests.support.factories import write_wheel
from tests.support.publish.wheel_pairs import INFO, by_member, only_difference, rewritten


def test_calls_equal_wheels_the_same(wheel: Path) -> None:
    comparison = compare(wheel, wheel)

    assert comparison.is_same
    assert comparison.differences == ()


def test_shows_line_of_text_and_lets_record_follow(tmp_path: Path) -> None:
    a = write_wheel(tmp_path / "a", {"pkg/__init__.py": b"X = 1\nY = 2\n"})
    b = write_wheel(tmp_path / "b", {"pkg/__init__.py": b"X = 1\nY = 3\n"})

    comparison = compare(a, b)

    result = by_member(comparison)
    assert (result["pkg/__init__.py"].a, result["pkg/__init__.py"].b) == ("Y = 2", "Y = 3")
    assert result["pkg/__init__.py"].causes == ()
    assert result[f"{INFO}/RECORD"].causes == ("record",)
    assert comparison.unexplained == 1


def _changed(wheel: Path, folder: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(folder / wheel.name, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            new.writestr(entry, change(content) if entry.filename.endswith(name) else content)
    return folder / wheel.name


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (
            lambda content: content.replace(b",6\n", b",7\n"),
            "another row for pkg/__init__.py, which doesn't differ",
        ),
        (
            lambda _: b'"' + b"a row that never ends,\n" * 10_000,
            "it differs, and can't be read as rows",
        ),
    ],
    ids=["row", "no table"],
)
def test_reports_record_that_differs_by_itself(
    change: Callable[[bytes], bytes], fact: str, wheel: Path, tmp_path: Path
) -> None:
    other = _changed(wheel, tmp_path, "RECORD", change)

    difference = by_member(compare(wheel, other))[f"{INFO}/RECORD"]

    assert difference.fact.startswith(fact)
    assert difference.causes == ()


def test_names_generator(wheel: Path, tmp_path: Path) -> None:
    other = _changed(wheel, tmp_path, "WHEEL", lambda text: text.replace(b": test", b": test 2"))

    difference = by_member(compare(wheel, other))[f"{INFO}/WHEEL"]

    assert difference.causes == ("wheel-generator",)
    assert difference.b == "Generator: test 2"


def test_reports_member_of_one_wheel(tmp_path: Path) -> None:
    a = write_wheel(tmp_path / "a", {"pkg/a.py": b""})
    b = write_wheel(tmp_path / "b", {"pkg/b.py": b""})

    result = by_member(compare(a, b))

    assert {*result} == {"pkg/a.py", "pkg/b.py", f"{INFO}/RECORD"}


def test_compares_thousands_of_members(tmp_path: Path) -> None:
    files = {f"pkg/{number}.py": b"" for number in range(3000)}
    wheels = [write_wheel(tmp_path / str(year), files, year=year) for year in (1980, 1981)]
    started = time.process_time()

    difference = only_difference(compare(*wheels))

    assert difference.causes == ("member-times",)
    assert time.process_time() - started < 2


def test_refuses_what_is_no_wheel(wheel: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.whl"
    other.write_bytes(b"PK")

    with pytest.raises(UnsafeArchiveError):
        compare(wheel, other)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (
            "date_time",
            (2026, 11, 21, 12, 0, 2),
            (("member-times",), "1980-01-01 00:00:00", "2026-11-21 12:00:02"),
        ),
        ("external_attr", 0o600 << 16, (("member-modes",), "?rw-r--r--", "?rw-------")),
        ("compress_type", zipfile.ZIP_STORED, ((), "deflated", "stored")),
    ],
)
def test_names_field(
    field: str, value: object, expected: tuple[object, ...], wheel: Path, tmp_path: Path
) -> None:
    other = rewritten(wheel, tmp_path / "b", lambda entry: setattr(entry, field, value))

    difference = only_difference(compare(wheel, other))

    assert (difference.causes, difference.a, difference.b) == expected


def test_names_order(wheel: Path, tmp_path: Path) -> None:
    other = rewritten(wheel, tmp_path / "b", order=lambda entries: entries[::-1])

    difference = only_difference(compare(wheel, other))

    assert difference.causes == ("member-order",)
    assert (difference.a, difference.b) == ("pkg/data.txt", f"{INFO}/RECORD")


def test_reports_what_installers_ignore(wheel: Path, tmp_path: Path) -> None:
    difference = only_difference(
        compare(wheel, rewritten(wheel, tmp_path / "b", comment=b"by hand"))
    )

    assert (difference.member, difference.causes) == ("", ())


def test_names_other_compression(wheel: Path, tmp_path: Path) -> None:
    difference = only_difference(compare(wheel, rewritten(wheel, tmp_path / "b", level=1)))

    assert difference.causes == ("deflate",)
