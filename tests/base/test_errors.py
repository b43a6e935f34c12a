from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from cuwheel.base.errors import (
    EXIT_CODES,
    BuildFailedError,
    CommandFailedError,
    CuwheelError,
    DiskFullError,
    FileAccessError,
    ProbeError,
    UsageError,
    naming_option,
    of_system_error,
    suggest,
)


def all_errors(base: type[CuwheelError] = CuwheelError) -> list[type[CuwheelError]]:
    return [kind for child in base.__subclasses__() for kind in (child, *all_errors(child))]


def make_failed(**changes: object) -> CommandFailedError:
    facts: dict[str, object] = {"command": ("ninja", "-j2"), "status": 1, "log": None, "tail": ()}
    return BuildFailedError("x: it failed", **{**facts, **changes})  # type: ignore[arg-type]


def test_prints_what_why_fix_and_more() -> None:
    error = UsageError("x: no such thing", why="it was never made", fix="make it")

    assert str(error).splitlines() == [
        "error: x: no such thing",
        "  because  it was never made",
        "  to fix   make it",
        "  more     TROUBLESHOOTING.md#usage",
    ]


def test_leaves_out_empty_lines() -> None:
    assert str(CuwheelError("x: it is so")) == "error: x: it is so"


def test_shows_command_log_and_tail() -> None:
    error = make_failed(log=Path("logs/build.log"), tail=("one", "two"))

    assert str(error).splitlines()[-5:] == [
        "  command  ninja -j2",
        "  log      logs/build.log",
        "  last 2 lines:",
        "    one",
        "    two",
    ]


@pytest.mark.parametrize(
    ("status", "text"),
    [(-9, "ran out of memory"), (137, "ran out of memory"), (-11, "signal 11"), (2, "status 2")],
)
def test_explains_status(status: int, text: str) -> None:
    assert text in make_failed(status=status).why


def test_every_case_has_an_exit_code_of_its_own() -> None:
    cases = [anchor for kind in all_errors() for anchor in kind.anchors]

    assert sorted(cases) == sorted(EXIT_CODES)
    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES)
    # 0 and 1 are Python's own; from 125 on shells give them a meaning.
    assert all(2 <= code < 125 for code in EXIT_CODES.values())


def test_takes_anchor_and_exit_code_of_its_case() -> None:
    usual, other = ProbeError("x"), ProbeError("x", anchor="slower")

    assert (usual.anchor, usual.exit_code) == ("probe", 93)
    assert (other.anchor, other.exit_code) == ("slower", 94)


@pytest.mark.parametrize(
    ("name", "known", "answer"),
    [
        ("--pyton", ["--python", "--arch"], 'did you mean "--python"?'),
        ("zzz", ["b", "a"], "known: a, b"),
        ("zzz", [], "none are known here"),
    ],
)
def test_suggests_nearest_name(name: str, known: list[str], answer: str) -> None:
    assert suggest(name, known) == answer


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EACCES, FileAccessError),
        (errno.EROFS, FileAccessError),
        (errno.ENOSPC, DiskFullError),
        (errno.EDQUOT, DiskFullError),
    ],
)
def test_converts_system_error(number: int, kind: type[CuwheelError]) -> None:
    error = of_system_error(OSError(number, os.strerror(number), "/some/file"))

    assert type(error) is kind
    assert "/some/file" in error.what
    assert error.why == f"system error: {os.strerror(number)}"


def refused(number: int, name: str | None) -> OSError:
    return OSError(number, os.strerror(number), *([name] if name else []))


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
@pytest.mark.parametrize("name", ["/out/lock.toml", "/out/.lock.toml.0a1b.part", "/out"])
def test_names_option_of_a_place_that_cannot_be_written(name: str, number: int) -> None:
    place = Path("/out/lock.toml")

    with pytest.raises(CuwheelError) as caught, naming_option("--lock", place):
        raise refused(number, name)

    assert "/out" in caught.value.what
    assert ".part" not in caught.value.what
    assert caught.value.why.startswith("--lock names it")
    assert caught.value.fix.endswith("with --lock")


def test_write_to_a_full_disk_is_to_the_place_of_the_option() -> None:
    with (
        pytest.raises(DiskFullError, match=r"/out/lock\.toml"),
        naming_option("--lock", Path("/out/lock.toml")),
    ):
        raise refused(errno.ENOSPC, None)


def test_full_disk_of_the_option_is_named_with_it() -> None:
    with pytest.raises(DiskFullError) as caught, naming_option("--to", Path("/out")):
        raise DiskFullError("no space left on the disk of /out/lib", why="0 bytes", fix="a cache")

    assert caught.value.fix.endswith("with --to")


@pytest.mark.parametrize(
    "problem",
    [
        refused(errno.EROFS, "/elsewhere/file"),
        refused(errno.EBADF, None),
        DiskFullError("no space left on the disk of /cache", why="0 bytes", fix="a cache"),
    ],
)
def test_other_places_are_not_of_the_option(problem: Exception) -> None:
    with pytest.raises(type(problem)) as caught, naming_option("--to", Path("/out/new")):
        raise problem

    assert caught.value is problem
