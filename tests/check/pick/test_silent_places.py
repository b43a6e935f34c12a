"""Places that refuse, answer with an error or not at all: nothing is said to be absent then."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cuwheel.base.fetch.indexes.offers import read_offers
from cuwheel.base.fetch.indexes.pages import PageFault
from cuwheel.base.fetch.retry import Attempts
from cuwheel.check.pick.choice import Offers, query_indexes, query_sources
from cuwheel.check.pick.document import PickDocument
from cuwheel.check.pick.known_sources import Sources
from cuwheel.check.pick.machine import parse_machine
from cuwheel.check.pick.pick import PickOptions, find
from cuwheel.check.pick.report import report_lines
from cuwheel.check.pick.stack import TORCH, Limits, StackSearch, find_stack
from cuwheel.check.pick.stack_report import describe_stack, stack_lines
from tests.support.check.offers import MACHINE
from tests.support.check.stacks import WheelIndex
from tests.support.servers.http import Site, serving

KINDS = ("answers", "refuses", "fails", "is mute")
NAME = "flash-attn"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WheelIndex]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Site()) as site:
        yield WheelIndex(folder=tmp_path, site=site)


@contextlib.contextmanager
def source_that(kind: str) -> Iterator[Sources]:
    """A known source that has no file of the project, or shows none."""
    site = Site(is_mute=kind == "is mute")
    site.statuses = [HTTPStatus.INTERNAL_SERVER_ERROR] * 99 if kind == "fails" else []
    with serving(site):
        base = "http://127.0.0.1:9" if kind == "refuses" else site.url("/simple")
        yield Sources(names=("astral",), bases={"astral": base})


def report_of(index: WheelIndex, kind: str, *, is_quiet: bool = False) -> str:
    """What `pick` prints, without line breaks."""
    wanted = Requirement(NAME)
    with source_that(kind) as sources:
        options = PickOptions(wanted=wanted, paper=MACHINE, sources=sources, start=Path.cwd())
        answer = find(options, {"PIP_INDEX_URL": index.url, "PIP_CONFIG_FILE": "/dev/null"})
    assert answer.all_answered is (kind == "answers")
    return report_of_answer(answer, is_quiet=is_quiet)


def report_of_answer(answer: PickDocument, *, is_quiet: bool = False) -> str:
    lines = report_lines(answer, Requirement(NAME), "", is_quiet=is_quiet, is_verbose=False)
    return " ".join(" ".join(lines).split())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("amount", ["whole", "quiet"])
def test_pick_does_not_say_that_there_is_no_wheel(
    kind: str, amount: str, index: WheelIndex
) -> None:
    index.add_sdist(NAME, "1.0")

    text = report_of(index, kind, is_quiet=amount == "quiet")

    absent = f"no wheel of {NAME} is on any of the indexes"
    unknown = f"unknown whether a wheel of {NAME} fits: astral didn't answer; no other place has"
    assert (absent in text, unknown in text) == (kind == "answers", kind != "answers")


@pytest.mark.parametrize("kind", KINDS)
def test_pick_does_not_say_that_none_is_compatible(kind: str, index: WheelIndex) -> None:
    name = index.add(NAME, "1.0+cu130torch2.8")

    text = report_of(index, kind)

    none = f"no wheel of {NAME} is compatible; the closest is {name}"
    unknown = f"fits: astral didn't answer; the closest of the others is {name}"
    assert (none in text, unknown in text) == (kind == "answers", kind != "answers")


def offers_of(index: WheelIndex, name: str, kind: str) -> Offers:
    with source_that(kind) as sources:
        wanted = Requirement(name)
        return query_indexes(wanted, [index.url]) + query_sources(wanted, sources.of(name))


@pytest.mark.parametrize("kind", ["answers", "fails"])
@pytest.mark.parametrize("files", ["sdist", "other Python", "other torch"])
def test_stack_does_not_say_that_there_is_no_wheel(
    kind: str, files: str, index: WheelIndex
) -> None:
    index.add_torch("2.11.0", pythons=("cp312",))
    index.add_sdist(NAME, "1.0")
    if files != "sdist":
        python = "cp38" if files == "other Python" else "cp312"
        index.add(NAME, "1.0+cu130torch2.8", python=python)
    wanted, machine = {NAME: Requirement(NAME)}, parse_machine(MACHINE)
    offers = {name: offers_of(index, name, kind) for name in (NAME, TORCH)}
    search = StackSearch(wanted, offers, machine, Limits(pythons=("3.12",)))

    choice = find_stack(search, lambda _: "")
    report = describe_stack(wanted, choice, offers, machine, lambda *_: "")

    assert choice.best
    [missing] = choice.best.missing
    place = "no index has" if kind == "answers" else "no index that answered has"
    text = {
        "sdist": f"{place} a wheel of it",
        "other Python": f"{place} a wheel for Python 3.12 on this kind of machine",
        "other torch": "astral didn't answer",
    }[files]
    assert (text in missing.why) is (files != "other torch" or kind != "answers")
    assert report.all_answered is (kind == "answers")


@pytest.mark.parametrize("kind", ["answers", "fails"])
def test_stack_does_not_say_that_torch_has_no_wheel(kind: str, index: WheelIndex) -> None:
    index.add_sdist(NAME, "1.0")
    index.add_sdist(TORCH, "2.11.0")
    wanted, machine = {TORCH: Requirement(TORCH)}, parse_machine(MACHINE)
    offers = {TORCH: offers_of(index, TORCH, "answers")}
    if kind == "fails":
        with source_that("fails") as astral:
            sources = Sources(names=("pytorch",), bases={"pytorch": astral.bases["astral"]})
            offers[TORCH] += query_sources(wanted[TORCH], sources.of(TORCH))

    choice = find_stack(StackSearch(wanted, offers, machine, Limits()), lambda _: "")
    report = describe_stack(wanted, choice, offers, machine, lambda *_: "")
    text = "\n".join(stack_lines(report, "", is_quiet=True, is_verbose=False))

    answered = " of the places that answered" * (kind == "fails")
    assert f"wheel of PyTorch{answered} is for such a machine" in text


@pytest.mark.parametrize("has_more", [True, False])
@pytest.mark.parametrize("place", ["source", "index"])
def test_list_that_is_cut_does_not_show_that_none_is_compatible(
    place: str,
    has_more: bool,  # noqa: FBT001
    index: WheelIndex,
) -> None:
    """Its pages that were read have a wheel, which doesn't fit; the next is on another server."""
    name = index.add(NAME, "1.0+cu130torch2.8", at="/links")
    link = index.links[f"/links/{NAME}/"][0].encode()
    page = "/list/releases"
    index.site.files[page] = index.site.files["/b.html"] = link
    next_page = "http://127.0.0.1:9/b.html" if has_more else index.site.url("/b.html")
    index.site.headers["Link"] = f'<{next_page}>; rel="next"'
    wanted, address = Requirement(NAME), index.site.url(page)
    is_source = place == "source"
    options = PickOptions(
        wanted=wanted,
        paper=MACHINE,
        indexes=() if is_source else (address,),
        sources=Sources(names=(NAME,), bases={NAME: index.site.url("/list")})
        if is_source
        else Sources(),
        start=Path.cwd(),
    )

    answer = find(options, {"PIP_INDEX_URL": index.url, "PIP_CONFIG_FILE": "/dev/null"})
    text = report_of_answer(answer)

    assert answer.all_answered is not has_more
    assert answer.nearest
    assert answer.nearest.name == name
    where = NAME if is_source else address
    unknown = f"fits: not all pages of {where} were read; the closest of the others is {name}"
    assert (unknown in text) is has_more
    assert ("is compatible; the closest is" in text) is not has_more


@pytest.mark.parametrize("status", [None, 403, 500, 503])
def test_index_with_error_does_not_lack_the_project(status: int | None, index: WheelIndex) -> None:
    """Its list of projects is a page without files: it shows no lack."""
    index.site.files["/simple/"] = b'<a href="flash-attn/">flash-attn</a>'
    index.site.statuses = [status] * 9 if status else []

    answer = read_offers(index.url, NAME, Attempts(most=1))

    assert isinstance(answer, PageFault)
    assert answer.kind == ("unasked" if status else "missing")


def test_page_of_other_files_lacks_the_project(index: WheelIndex) -> None:
    index.add("other", "1.0", at="/links")
    page = "/links/other/"

    answer = read_offers(index.site.url(page), NAME, Attempts())

    assert isinstance(answer, PageFault)
    assert answer.kind == "missing"


@pytest.mark.parametrize("most", [1, 2])
def test_pages_that_were_not_read_are_unknown(most: int, index: WheelIndex) -> None:
    index.add("other", "1.0", at="/links")
    link = index.links["/links/other/"][0].encode()
    index.site.files["/a.html"] = index.site.files["/b.html"] = link
    index.site.headers["Link"] = f'<{index.site.url("/b.html")}>; rel="next"'

    answer = read_offers(index.site.url("/a.html"), NAME, Attempts(), form="page", most_pages=most)

    assert isinstance(answer, PageFault)
    assert answer.kind == ("unasked" if most == 1 else "missing")
