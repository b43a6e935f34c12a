"""What is printed and what programs get."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.pick.document import pick_document
from cuwheel.pick.report import report_lines
from cuwheel.system.output.documents import as_line
from tests.support.documents import read_document
from tests.support.offered import MACHINE

if TYPE_CHECKING:
    from cuwheel.pick.report import Report
    from tests.support.offered import Index


def lines(report: Report, *, is_quiet: bool = False, is_verbose: bool = False) -> list[str]:
    return list(report_lines(report, is_quiet=is_quiet, is_verbose=is_verbose))


def test_keeps_to_80_columns_but_for_lines_to_copy(index: Index) -> None:
    index.add("1.0", "cp312-cp312-linux_x86_64", "torch>=2.4")

    said = lines(index.pick("python=3.12,platform=x86_64"), is_verbose=True)

    assert any(line.startswith("pip ") for line in said)
    assert [line for line in said if len(line) > 80] == [
        line for line in said if line.startswith(("pip ", "uv "))
    ]


def test_quiet_is_wheel_and_one_line(index: Index) -> None:
    index.add()

    wheel, line = lines(index.pick(), is_quiet=True)

    assert wheel.endswith(".whl")
    assert line.startswith("pip ")
    assert "'toy @ http://127.0.0.1:" in line
    assert "#sha256=" in line


def test_quiet_names_what_is_against_the_nearest(index: Index) -> None:
    index.add("1.0+cu128")

    said = "\n".join(lines(index.pick(), is_quiet=True))

    assert "because     cuda: it was built for CUDA 12.8" in said


def test_shows_no_password(index: Index) -> None:
    index.add("1.0+cu128")
    index.site.password = "Basic bWU6c2VjcmV0"  # me:secret
    address = index.site.url("/simple/", login="me:secret@")

    from tests.support.offered import find_on  # noqa: PLC0415

    report = find_on(address, paper=MACHINE.replace("13.0", "12.8"))

    assert report.choice.taken is not None
    assert "secret" not in as_line(pick_document(report)) + "".join(lines(report, is_verbose=True))


def test_shows_control_characters(index: Index) -> None:
    index.add(attributes='data-yanked="bad&#10;fits  all"')

    said = lines(index.pick())

    assert not any(line.startswith("fits") for line in said)


@pytest.mark.parametrize("version", ["1.0+cu130", "1.0+cu128"])
def test_data_keep_their_form(version: str, index: Index) -> None:
    index.add(version)

    data = read_document(as_line(pick_document(index.pick())), "pick")

    assert data["fits"] == (data["wheel"] is not None) == (data["nearest"] is None)
