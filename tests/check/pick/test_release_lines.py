"""Releases of two parts are any of their line, of three parts that one."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet

from cuwheel.check.pick.release_lines import Share, newest_of, share_that_meets
from tests.support.check.offers import MACHINE, Index

LINE = MACHINE.replace("torch=2.11", "torch=2.9,jax=0.7")


@pytest.mark.parametrize(
    ("release", "required", "share"),
    [
        *(("2.9", text, "all") for text in ("", ">=2.9", "==2.9.*", "<3", "~=2.9", "!=2.8.1")),
        *(("2.9", text, "some") for text in ("==2.9.1", ">=2.9.1", "<=2.9", "!=2.9.0", "==2.9")),
        *(("2.9", text, "some") for text in (">2.9.0,<2.9.2", "==2.9.1+cu128", "<2.9.1")),
        *(("2.9", text, "none") for text in ("==2.8.*", "<2.9", ">=2.10", "==2.10.1", "~=2.8.1")),
        ("2.9.1", "==2.9.1", "all"),
        ("2.9.0", "==2.9.1", "none"),
        ("2.9.1+cu128", "==2.9.1", "all"),
        ("2.9.1", "===2.9.1+local.text", "none"),
    ],
)
def test_counts_releases_that_meet(release: str, required: str, share: Share) -> None:
    assert share_that_meets(release, SpecifierSet(required)) == share


@pytest.mark.parametrize(
    ("paper", "fact", "kind"),
    [
        (LINE, {"requires": "torch==2.9.1"}, "framework"),
        (LINE, {"requires": "jax>=0.7.2"}, "framework"),
        (LINE, {"attributes": 'data-requires-python="&gt;=3.12.4"'}, "python"),
        (LINE, {"requires": "torch==2.9.*"}, ""),
        (LINE, {"attributes": 'data-requires-python="&gt;=3.12"'}, ""),
        (LINE.replace("2.9", "2.9.1"), {"requires": "torch==2.9.1"}, ""),
    ],
)
def test_wheel_for_some_releases_of_a_line_may_fit(
    paper: str, fact: dict[str, str], kind: str, index: Index
) -> None:
    requires = [fact["requires"]] if "requires" in fact else []
    index.add("1.0", "py3-none-any", *requires, attributes=fact.get("attributes", ""))

    wheel = index.pick(paper).wheel

    assert wheel
    kinds = [reason.kind for reason in wheel.unknown if reason.kind != "arch"]
    assert kinds == [kind] * bool(kind)


@pytest.mark.parametrize("exact", ["torch=2.9.0", "torch=2.9.2"])
def test_wheel_for_another_release_of_a_line_does_not_fit(exact: str, index: Index) -> None:
    index.add("1.0", "py3-none-any", "torch==2.9.1")

    report = index.pick(LINE.replace("torch=2.9", exact))

    assert report.nearest
    assert [reason.kind for reason in report.nearest.reasons] == ["framework"]


def test_markers_see_the_newest_python_of_a_line(index: Index) -> None:
    index.add("1.0", "py3-none-any", 'torch==2.8.0; python_full_version < "3.12.3"')

    assert index.pick(LINE).fits
    assert not index.pick(LINE.replace("python=3.12", "python=3.12.1")).fits
    assert newest_of("3.12.1") == "3.12.1"
