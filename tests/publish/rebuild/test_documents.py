"""What a verification leaves: folders, records in reports and in the repository."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rich.console

from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.publish.rebuild.builds import BuiltAgain
from cuwheel.publish.rebuild.documents import (
    REPRODUCIBILITY_PAGE,
    leftovers_of,
    print_leftovers,
    read_findings,
    read_verification,
    record_target,
    record_verification,
    with_table,
)
from cuwheel.publish.rebuild.verify import Verified
from tests.support.documents import read_document
from tests.support.factories import make_target, write_wheel

_MIB = 1 << 20


def _file(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * _MIB)
    return path


def test_counts_what_removing_frees(tmp_path: Path) -> None:
    shared = _file(tmp_path / "cache" / "wheel")
    _file(tmp_path / "left" / "some" / "cache" / "own")
    (tmp_path / "left" / "some" / "linked").hardlink_to(shared)
    (tmp_path / "left" / "some" / "downloads").symlink_to(shared.parent)

    [left] = leftovers_of(tmp_path / "left")

    assert left.path.name == "some"
    assert _MIB <= left.size < _MIB + 64 * 1024


def test_lists_folders_and_a_command_that_removes_them(tmp_path: Path) -> None:
    folder = tmp_path / "work dir" / "verify" / "x-130"
    shared = _file(tmp_path / "cache" / "wheel")
    _file(folder / "usual" / "x.whl")
    (folder / "some").mkdir()
    (folder / "some" / "uv").symlink_to(shared.parent)
    written = io.StringIO()

    print_leftovers(folder, Console(rich.console.Console(file=written, width=200)))

    lines = [line.strip() for line in written.getvalue().splitlines()]
    assert lines[0] == f"left, 1.0 MiB: {folder}"
    assert [line.split()[0] for line in lines[1:3]] == ["usual", "some"]
    subprocess.run(shlex.split(lines[3].removeprefix("to remove it: ")), check=True)
    assert (folder.exists(), shared.exists()) == (False, True)


SHA256 = "ab" * 32


def build(name: str) -> BuiltAgain:
    return BuiltAgain(
        name=name, varied="varied", wheel=Path("toy.whl"), sha256=SHA256, seconds=1.0, cache=""
    )


@pytest.mark.parametrize("unequal", [(), ("other",)])
def test_is_named_by_the_wheels_hash(unequal: tuple[str, ...], tmp_path: Path) -> None:
    result = Verified(builds=(build("usual"), build("other")), unequal=unequal, causes=())

    path = record_verification(result, "toy-130", tmp_path)

    record = read_verification(read_document(path.read_text(), "wheel-verification"))
    assert path == tmp_path / "verify" / f"{SHA256}.json"
    assert (record.sha256, record.wheel, record.target) == (SHA256, "toy.whl", "toy-130")
    assert (record.is_same, len(record.builds)) == (not unequal, 2)


def test_later_verification_takes_the_place_of_the_earlier(tmp_path: Path) -> None:
    first = Verified(builds=(build("usual"),), unequal=(), causes=())
    record_verification(first, "toy-130", tmp_path)

    path = record_verification(replace(first, unequal=("warm",)), "toy-130", tmp_path)

    record = read_verification(read_document(path.read_text(), "wheel-verification"))
    assert not record.is_same


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the page and no results."""
    (tmp_path / "docs").mkdir()
    page = (ROOT / REPRODUCIBILITY_PAGE).read_text()
    (tmp_path / REPRODUCIBILITY_PAGE).write_text(with_table(page, {}))
    return tmp_path


@pytest.fixture
def record(project: Path, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Record a verification in the project; return the target's row of data."""
    target = make_target()
    wheel = write_wheel(tmp_path / "dist", {"pkg/__init__.py": b""})

    def act(sha256: str = SHA256, unequal: tuple[str, ...] = (), cause: str = "") -> dict[str, Any]:
        builds = (replace(build("usual"), wheel=wheel, sha256=sha256), build("other"))
        verified = Verified(builds=builds, unequal=unequal, causes=(cause,))
        record_target(target, verified, ("unshare", "none"), project)
        row: dict[str, Any] = read_findings(project)[target.id]
        return row

    return act


def test_records_result_in_data_and_page(
    record: Callable[..., dict[str, Any]], project: Path
) -> None:
    record()

    result = record(unequal=("other",), cause="a|b")

    [row] = [
        line
        for line in (project / REPRODUCIBILITY_PAGE).read_text().splitlines()
        if result["sha256"][:16] in line
    ]
    assert (result["other"], result["warm"], result["sandboxes"]) == (
        False,
        True,
        ["unshare", "none"],
    )
    assert "differs: a\\|b" in row
    assert row.count(" | ") == 7


def test_keeps_other_machines_of_the_same_wheel(
    record: Callable[..., dict[str, Any]], project: Path
) -> None:
    record()
    data = read_findings(project)
    for row in data.values():
        row["machines"] = [["a Xeon", "same bytes"]]
    (project / "docs" / "reproducibility.json").write_text(json.dumps(data))

    assert record()["machines"] == [["a Xeon", "same bytes"]]
    assert record(sha256="0" * 64)["machines"] == []


def test_page_has_the_table_of_its_data() -> None:
    page = (ROOT / REPRODUCIBILITY_PAGE).read_text()

    assert page == with_table(page, read_findings(ROOT))
