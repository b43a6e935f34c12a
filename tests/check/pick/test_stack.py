"""The choice of Python, PyTorch and CUDA for several packages, from a real index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cuwheel.check.pick.choice import query_indexes
from cuwheel.check.pick.machine import parse_machine
from cuwheel.check.pick.stack import TORCH, Limits, StackChoice, StackFit, StackSearch, find_stack
from tests.support.check.stacks import WheelIndex
from tests.support.servers.http import Site, serving

MACHINE = "python=3.12,arch=90,glibc=2.36,driver=580.95.05,platform=x86_64"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WheelIndex]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Site()) as site:
        yield WheelIndex(folder=tmp_path, site=site)


def choose(
    index: WheelIndex,
    *wanted: str,
    machine: str = MACHINE,
    conflicts: tuple[str, ...] = (),
    limits: Limits | None = None,
    built_for: str = "",
) -> StackChoice:
    """Return the choice; cells of the PyTorch releases in `conflicts` don't go together.

    Args:
        built_for: the PyTorch for which recipes build everything.
    """
    requirements = {Requirement(text).name: Requirement(text) for text in wanted}
    names = dict.fromkeys((*requirements, TORCH))
    offers = {
        name: query_indexes(requirements.get(name, Requirement(name)), [index.url])
        for name in names
    }
    search = StackSearch(
        requirements,
        offers,
        parse_machine(machine),
        limits or Limits(),
        lambda _, cell: cell.framework(TORCH) == built_for,
    )

    def try_together(fit: StackFit) -> str:
        return "they exclude each other" if fit.cell.torch in conflicts else ""

    return find_stack(search, try_together)


def cell_of(choice: StackChoice) -> tuple[str, str, str]:
    assert choice.best
    cell = choice.best.cell
    return cell.python, cell.torch, cell.cuda


def test_takes_newest_cell_with_all_wheels(index: WheelIndex) -> None:
    index.add_torch("2.12.1", "2.11.0", "2.10.0")
    for torch in ("2.10", "2.11"):
        index.add("fast", f"1.0+cu130torch{torch}")
    for torch in ("2.11", "2.12"):
        index.add("slow", f"2.0+cu130torch{torch}")

    choice = choose(index, "fast", "slow")

    assert cell_of(choice) == ("3.12", "2.11.0", "13.0")
    assert choice.best
    assert choice.best.is_complete
    assert choice.best.wheels["slow"].offer.name.startswith("slow-2.0+cu130torch2.11")
    [newer] = choice.newer
    assert newer.cell.torch == "2.12.1"
    assert [wheel.project for wheel in newer.missing] == ["fast"]
    assert "built for torch 2.11" in newer.missing[0].why


def test_names_runner_up_of_another_torch(index: WheelIndex) -> None:
    index.add_torch("2.11.0", "2.10.0")
    index.add("fast", "1.0+cu130torch2.11")
    index.add("fast", "1.0+cu130torch2.11", python="cp311")
    index.add("fast", "1.0+cu128torch2.10")

    choice = choose(index, "fast", TORCH)

    assert cell_of(choice) == ("3.12", "2.11.0", "13.0")
    assert choice.runner_up
    assert choice.runner_up.torch == "2.10.0"


def test_old_driver_takes_older_cuda(index: WheelIndex) -> None:
    index.add_torch("2.11.0", "2.10.0")
    index.add("fast", "1.0+cu130torch2.11")
    index.add("fast", "1.0+cu128torch2.10")

    choice = choose(index, "fast", TORCH, machine=MACHINE.replace("580.95.05", "550.54.14"))

    assert cell_of(choice)[1:] == ("2.10.0", "12.8")
    assert "CUDA 13 needs driver" in choice.newer[0].missing[0].why


def test_takes_cuda_line_that_a_package_needs(index: WheelIndex) -> None:
    index.add_torch("2.12.0", "2.12.0+cu126", "2.12.0+cpu")
    index.add("fast", "1.0+cu126torch2.12")

    assert cell_of(choose(index, "fast", TORCH)) == ("3.12", "2.12.0+cu126", "12.6")


def test_names_what_has_to_be_built(index: WheelIndex) -> None:
    index.add_torch("2.11.0", "2.10.0")
    index.add("fast", "1.0+cu130torch2.11")
    index.add_sdist("sourced", "3.0")

    choice = choose(index, "fast", "sourced")

    assert cell_of(choice)[1] == "2.11.0"
    assert choice.best
    [missing] = choice.best.missing
    assert (missing.project, missing.sdist) == ("sourced", "sourced-3.0.tar.gz")
    assert not choice.best.is_complete


def test_prefers_cell_for_which_recipes_build_what_is_missing(index: WheelIndex) -> None:
    index.add_torch("2.12.0", "2.11.0")
    index.add("fast", "1.0+cu130torch2.12")
    index.add_sdist("sourced", "3.0")

    choice = choose(index, "fast", "sourced", built_for="2.11.0")

    assert cell_of(choice)[1] == "2.11.0"
    assert choice.best
    assert {wheel.project for wheel in choice.best.missing} == {"fast", "sourced"}


def test_requires_torch_as_metadata_say(index: WheelIndex) -> None:
    index.add_torch("2.12.0", "2.11.0")
    index.add("fast", "1.0", "torch==2.11.*")

    assert cell_of(choose(index, "fast"))[1] == "2.11.0"


def test_goes_on_where_wheels_exclude_each_other(index: WheelIndex) -> None:
    index.add_torch("2.12.0", "2.11.0")
    for torch in ("2.11", "2.12"):
        index.add("fast", f"1.0+cu130torch{torch}")

    choice = choose(index, "fast", conflicts=("2.12.0",))

    assert cell_of(choice)[1] == "2.11.0"
    assert choice.newer[0].conflict == "they exclude each other"


def test_needs_no_torch_for_others(index: WheelIndex) -> None:
    index.add_torch("2.11.0")
    index.add("plain", "1.0", python="cp313")
    index.add("plain", "1.0", python="cp312")

    assert cell_of(choose(index, "plain")) == ("3.13", "", "")


@pytest.mark.parametrize(
    ("limits", "cell"),
    [
        (Limits(pythons=("3.11",)), ("3.11", "2.12.0", "13.0")),
        (Limits(torch="2.11"), ("3.12", "2.11.0", "13.0")),
        (Limits(cuda="12"), ("3.12", "2.10.0", "12.8")),
    ],
)
def test_keeps_to_limits(limits: Limits, cell: tuple[str, str, str], index: WheelIndex) -> None:
    index.add_torch("2.12.0", "2.11.0", "2.10.0")
    index.add("fast", "1.0", tag="py3-none-any")

    assert cell_of(choose(index, "fast", TORCH, limits=limits)) == cell


def test_reports_that_torch_has_no_wheel(index: WheelIndex) -> None:
    index.add("fast", "1.0+cu130torch2.11")

    assert choose(index, "fast").best is None


def test_installer_chooses_among_all_that_fit(index: WheelIndex) -> None:
    """Of packages without a framework also older ones than those of which METADATA is read."""
    for minor in range(12):
        index.add("plain", f"1.{minor}", tag="py3-none-any")
    index.add("plain", "2.0", python="cp310")
    index.add("other", "1.0", tag="py3-none-any")

    best = choose(index, "plain", "other", limits=Limits(pythons=("3.12",))).best

    assert best
    versions = [str(wheel.offer.version) for wheel in best.fitting["plain"]]
    assert versions == [f"1.{minor}" for minor in reversed(range(12))]


def test_installer_gets_known_sources_only_for_what_own_indexes_lack(index: WheelIndex) -> None:
    index.add("plain", "1.0", tag="py3-none-any")
    index.add("plain", "2.0", tag="py3-none-any", at="/public")
    index.add("other", "1.0", tag="py3-none-any", at="/public")
    public = index.site.url("/public/")
    wanted = {name: Requirement(name) for name in ("plain", "other")}
    offers = {
        name: replace(
            query_indexes(Requirement(name), [index.url, public]), sources={public: "public"}
        )
        for name in (*wanted, TORCH)
    }
    search = StackSearch(wanted, offers, parse_machine(MACHINE), Limits())

    best = find_stack(search, lambda _: "").best

    assert best
    names = {name: [wheel.offer.name for wheel in best.fitting[name]] for name in wanted}
    assert names == {
        "plain": ["plain-1.0-py3-none-any.whl"],
        "other": ["other-1.0-py3-none-any.whl"],
    }


@pytest.mark.parametrize(
    ("torch", "taken"), [("2.11", "2.11.1"), ("2.11.0", "2.11.0"), ("2.11.0+cu130", "2.11.0")]
)
def test_keeps_the_release_of_torch_that_is_given(
    torch: str, taken: str, index: WheelIndex
) -> None:
    index.add_torch("2.11.1", "2.11.0")
    index.add("fast", "1.0+cu130torch2.11")

    choice = choose(index, "fast", limits=Limits(torch=torch))

    assert cell_of(choice)[1] == taken
