"""What others made costs a bounded amount of memory, and is refused in words where it is larger."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from cuwheel import limits
from cuwheel.errors import UnsafeArchiveError
from cuwheel.wheel.archive import open_wheel
from tests.support.audited import make_wheel
from tests.support.bombs import IMPORTS, MIB, peak_of, write_bomb

if TYPE_CHECKING:
    from pathlib import Path

_AUDIT = """
from cuwheel.audit.session import AuditOptions, audit_session
from cuwheel.errors import AuditError
from cuwheel.system.console import Console
try:
    audit_session([Path(sys.argv[1])], (), Console(), AuditOptions())
except AuditError as error:
    print(error)
"""
_INDEX = """
from cuwheel.errors import WheelIndexError
from cuwheel.index.folder_index import write_index
try:
    write_index(Path(sys.argv[1]))
except WheelIndexError as error:
    print(error)
"""
BOMBS = {
    "METADATA": (b"Classifier: a\n", "METADATA has 256.0 MiB unpacked, at most 4.0 MiB are read"),
    "WHEEL": (b"Tag: py3-none-any\n", "WHEEL has 256.0 MiB unpacked, at most 4.0 MiB are read"),
    "RECORD": (b"a,,\n", "RECORD has 256.0 MiB unpacked, at most 16.0 MiB are read"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_wheel_larger_inside_than_any_costs_no_memory(tmp_path: Path, name: str) -> None:
    line, fault = BOMBS[name]
    write_bomb(tmp_path, {name: (line, 256 * MIB)})
    sound = make_wheel(tmp_path)

    audited, memory = peak_of(_AUDIT, tmp_path)

    assert fault in " ".join(audited.split())
    assert f"{sound.name}: nothing found" in audited
    assert memory < IMPORTS


def test_index_of_wheel_larger_inside_than_any_costs_no_memory(tmp_path: Path) -> None:
    line, fault = BOMBS["METADATA"]
    write_bomb(tmp_path, {"METADATA": (line, 256 * MIB)})

    said, memory = peak_of(_INDEX, tmp_path)

    assert fault in said
    assert memory < IMPORTS


@pytest.mark.parametrize(
    ("name", "line", "size", "fault"),
    [
        ("RECORD", b"a\n", 15 * MIB, "it has more than 300,000 rows"),
        ("RECORD", b"\n", 15 * MIB, "it is missing or empty"),
        ("METADATA", b"a:\n", MIB, "RECORD"),
        ("METADATA", b"Requires-Dist: a\n", MIB, "RECORD"),
    ],
    ids=["rows", "empty lines", "headers", "requirements"],
)
def test_largest_texts_of_wheels_cost_bounded_memory(
    tmp_path: Path, name: str, line: bytes, size: int, fault: str
) -> None:
    write_bomb(tmp_path, {name: (line, size)})

    said, memory = peak_of(_AUDIT, tmp_path)

    assert fault in " ".join(said.split())
    assert memory < limits.MEMORY


def test_refuses_table_of_members_that_no_wheel_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive:
        for number in range(100):
            archive.writestr(f"pkg/{number}", "")
    monkeypatch.setattr(limits, "ARCHIVE_TABLE", 1000)

    with pytest.raises(UnsafeArchiveError) as caught, open_wheel(wheel):
        pass

    assert "its table of members may have 1,000 bytes" in caught.value.why


@pytest.mark.parametrize(
    ("limit", "fault"),
    [("MEMBER", "unpacked, at most 1 byte"), ("WHEEL", "all members have")],
)
def test_refuses_contents_that_no_wheel_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, fault: str
) -> None:
    wheel = make_wheel(tmp_path)
    monkeypatch.setattr(limits, limit, 1)

    with pytest.raises(UnsafeArchiveError) as caught, open_wheel(wheel):
        pass

    assert fault in caught.value.why
