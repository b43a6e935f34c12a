from __future__ import annotations

import time
import zipfile
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import UnsafeArchiveError
from cuwheel.verify.compare.wheel import compare
from tests.support.compared import INFO, by_member, only_difference, rewritten
from tests.support.factories import write_wheel

if TYPE_CHECKING:
    from pathlib import Path


def test_calls_equal_wheels_the_same(wheel: Path) -> None:
    comparison = compare(wheel, wheel)

    assert comparison.is_same
    assert comparison.differences == ()


def test_shows_line_of_text_and_lets_record_follow(tmp_path: Path) -> None:
    a = write_wheel(tmp_path / "a", {"pkg/__init__.py": b"X = 1\nY = 2\n"})
    b = write_wheel(tmp_path / "b", {"pkg/__init__.py": b"X = 1\nY = 3\n"})

    comparison = compare(a, b)

    found = by_member(comparison)
    assert (found["pkg/__init__.py"].a, found["pkg/__init__.py"].b) == ("Y = 2", "Y = 3")
    assert found["pkg/__init__.py"].causes == ()
    assert found[f"{INFO}/RECORD"].causes == ("record",)
    assert len(comparison.unexplained) == 1


def test_tells_record_that_differs_by_itself(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(tmp_path / wheel.name, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            is_record = entry.filename.endswith("RECORD")
            new.writestr(entry, content.replace(b",6\n", b",7\n") if is_record else content)

    difference = only_difference(compare(wheel, tmp_path / wheel.name))

    assert difference.fact == "another row for pkg/__init__.py, which doesn't differ"
    assert difference.causes == ()


def test_tells_record_that_is_no_table(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(tmp_path / wheel.name, "w") as new:
        for entry in old.infolist():
            is_record = entry.filename.endswith("RECORD")
            unending = b'"' + b"a row that never ends,\n" * 10_000
            new.writestr(entry, unending if is_record else old.read(entry))

    difference = by_member(compare(wheel, tmp_path / wheel.name))[f"{INFO}/RECORD"]

    assert difference.fact.startswith("it differs, and can't be read as rows")
    assert difference.causes == ()


def test_names_generator(tmp_path: Path) -> None:
    a = write_wheel(tmp_path / "a", {})
    b = rewritten(a, tmp_path / "b")
    with zipfile.ZipFile(a) as old, zipfile.ZipFile(b, "w") as new:
        for entry in old.infolist():
            new.writestr(entry, old.read(entry).replace(b"Generator: test", b"Generator: test 2"))

    difference = by_member(compare(a, b))[f"{INFO}/WHEEL"]

    assert difference.causes == ("wheel-generator",)
    assert difference.b == "Generator: test 2"


def test_tells_member_of_one_wheel(tmp_path: Path) -> None:
    a = write_wheel(tmp_path / "a", {"pkg/a.py": b""})
    b = write_wheel(tmp_path / "b", {"pkg/b.py": b""})

    found = by_member(compare(a, b))

    assert found["pkg/a.py"].fact == "only the first wheel has it"
    assert found["pkg/b.py"].fact == "only the second wheel has it"


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
