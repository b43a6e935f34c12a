"""The report as text, and the JSON document."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from cuwheel.base.system.output.documents import as_line
from cuwheel.check.pick.document import PickDocument
from cuwheel.check.pick.report import report_lines
from tests.support.check.offers import MACHINE, Index, find_on
from tests.support.documents import read_document


def lines(report: PickDocument, *, is_quiet: bool = False, is_verbose: bool = False) -> list[str]:
    return list(
        report_lines(report, Requirement("toy"), "", is_quiet=is_quiet, is_verbose=is_verbose)
    )


def test_keeps_to_80_columns_but_for_lines_to_copy(index: Index) -> None:
    index.add("1.0", "cp312-cp312-linux_x86_64", "torch>=2.4")

    output = lines(index.pick("python=3.12,platform=x86_64"), is_verbose=True)

    assert any(line.startswith("pip ") for line in output)
    assert [line for line in output if len(line) > 80] == [
        line for line in output if line.startswith(("pip ", "uv "))
    ]


def test_quiet_is_wheel_and_one_line(index: Index) -> None:
    index.add()

    wheel, line = lines(index.pick(), is_quiet=True)

    assert wheel.endswith(".whl")
    assert line.startswith("pip ")
    assert "'toy @ http://127.0.0.1:" in line
    assert "#sha256=" in line


def test_quiet_names_reasons_against_the_nearest(index: Index) -> None:
    index.add("1.0+cu128")

    output = "\n".join(lines(index.pick(), is_quiet=True))

    assert "because     cuda: it was built for CUDA 12.8" in output


def test_shows_no_password(index: Index) -> None:
    index.add("1.0+cu128")
    index.site.password = "Basic bWU6c2VjcmV0"  # me:secret
    address = index.site.url("/simple/", login="me:secret@")

    report = find_on(address, paper=MACHINE.replace("13.0", "12.8"))

    assert report.wheel
    assert "secret" not in as_line(report) + "".join(lines(report, is_verbose=True))


def test_shows_control_characters(index: Index) -> None:
    index.add(attributes='data-yanked="bad&#10;fits  all"')

    output = lines(index.pick())

    assert not any(line.startswith("fits") for line in output)


@pytest.mark.parametrize("version", ["1.0+cu130", "1.0+cu128"])
def test_data_keep_their_form(version: str, index: Index) -> None:
    index.add(version)

    data = read_document(as_line(index.pick()), "pick")

    assert data["fits"] == (data["wheel"] is not None) == (data["nearest"] is None)
