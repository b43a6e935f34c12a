"""Libraries of the host with addresses that follow from something that moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.publish.wheel_pairs import compare_host
from tests.support.requirements import require

_CALLS = """
int puts(const char *), rand(void), getpid(void);
int NAME(int n) { return n + 1; }
int call(int n) { return FIRST() + SECOND() + NAME(n) + puts("text"); }
"""


def test_proves_that_addresses_follow_from_longer_path(tmp_path: Path) -> None:
    path = '-UFILE_NAME -DFILE_NAME="/quite/another/folder/of/another/machine/x.c"'

    result = compare_host(tmp_path, (), tuple(path.split()))

    causes = {
        section: {key for one in output for key in one.causes} for section, output in result.items()
    }
    assert causes[".rodata"] == {"build-path"}
    assert causes[".note.gnu.build-id"] == {"build-id"}
    assert ".text" not in causes
    assert all(one.causes for output in result.values() for one in output)


def test_lets_no_constant_pass_for_address(tmp_path: Path) -> None:
    longer_by_one = ("-UFILE_NAME", '-DFILE_NAME="/ab/x.c"')

    result = compare_host(tmp_path, (), (*longer_by_one, "-UFACTOR", "-DFACTOR=8"))

    assert result[".text"][0].causes == ()
    assert result[".rodata"][0].causes == ("build-path",)


def test_follows_calls_that_were_sorted_anew(tmp_path: Path) -> None:
    name = "-DNAME=__cudaRegisterLinkedBinary_{}_4_r_cu_go".format
    calls = ("-DFIRST=rand", "-DSECOND=getpid")

    result = compare_host(
        tmp_path, (name("13714a58"), *calls), (name("bbaba8ea"), *calls), code=_CALLS
    )

    assert result[".dynstr"][0].causes == ("module-path",)
    assert result[".gnu.hash"][0].causes == ("layout",)
    assert ".text" not in result


# GNU ld sorts slots by name, so that the code differs; gold by their first use, and it doesn't.
@pytest.mark.parametrize(
    ("linker", "fact"),
    [
        ("bfd", "host code"),
        ("gold", "host code calls other functions of other libraries"),
    ],
)
def test_reports_call_of_another_function(tmp_path: Path, linker: str, fact: str) -> None:
    if linker == "gold":
        require("gold", "how differences of code that gold linked are named")
    orders = ("-DFIRST=rand", "-DSECOND=getpid"), ("-DFIRST=getpid", "-DSECOND=rand")
    flags = (("-DNAME=f", f"-fuse-ld={linker}", *order) for order in orders)

    result = compare_host(tmp_path, *flags, code=_CALLS)

    (difference,) = result[".text"]
    assert difference.fact.partition(":")[0] == fact
    assert difference.causes == ()


def test_reports_host_code_that_changed(tmp_path: Path) -> None:
    result = compare_host(tmp_path, (), ("-UFACTOR", "-DFACTOR=8"))

    (difference,) = result[".text"]
    assert difference.fact.startswith("host code: ")
    assert difference.causes == ()


def test_reports_numbers_in_another_order(tmp_path: Path) -> None:
    code = "const int known[] = {FIRST, SECOND, 7};"

    result = compare_host(
        tmp_path, ("-DFIRST=1", "-DSECOND=0"), ("-DFIRST=0", "-DSECOND=1"), code=code
    )

    assert [one.fact for one in result[".rodata"]] == ["2 of 12 bytes differ"]
