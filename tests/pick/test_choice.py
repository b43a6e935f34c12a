"""Which of several wheels is taken, and how little is read for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.offered import MACHINE, PAYLOAD, TAG, find_on

if TYPE_CHECKING:
    from tests.support.offered import Index


def taken(index: Index, wanted: str = "toy") -> str:
    found = index.pick(wanted=wanted).choice.taken
    return found.offer.name if found else ""


def test_takes_newest(index: Index) -> None:
    for version in ("1.0", "1.10", "1.9"):
        index.add(version)

    assert taken(index) == f"toy-1.10-{TAG}.whl"


def test_takes_highest_build_tag(index: Index) -> None:
    for build in ("1.0", "1.0-10", "1.0-9"):
        index.add(build)

    assert taken(index) == f"toy-1.0-10-{TAG}.whl"


def test_takes_tag_that_installers_prefer(index: Index) -> None:
    for tag in ("py3-none-any", "cp310-abi3-manylinux_2_28_x86_64", TAG.replace("2_28", "2_17")):
        index.add(tag=tag)
    index.add()

    assert taken(index) == f"toy-1.0-{TAG}.whl"


def test_takes_asked_version(index: Index) -> None:
    for version in ("1.0", "2.0"):
        index.add(version)

    assert taken(index, "toy<2") == f"toy-1.0-{TAG}.whl"


def test_takes_older_one_where_newest_requires_other_torch(index: Index) -> None:
    index.add("1.0", TAG, "torch>=2.4")
    index.add("2.0", TAG, "torch==2.15.*")

    found = index.pick().choice

    assert found.taken is not None
    assert str(found.taken.offer.version) == "1.0"
    assert found.newer is not None
    assert [one.kind for one in found.newer.reasons] == ["framework"]


@pytest.mark.parametrize("content", [b"", b"garbage" * 99, None])
def test_takes_older_one_where_newest_is_damaged_or_gone(
    content: bytes | None, index: Index
) -> None:
    index.add("1.0")
    path = f"/files/{index.add('2.0').name}"
    if content is None:
        del index.site.files[path]
    else:
        index.site.files[path] = content

    found = index.pick().choice

    assert found.taken is not None
    assert str(found.taken.offer.version) == "1.0"
    assert found.newer is not None
    assert [one.kind for one in found.newer.reasons] == ["metadata"]


def test_wheel_that_is_not_read_in_parts_may_fit(index: Index) -> None:
    index.add("2.0")
    index.site.knows_range = False

    found = index.pick().choice.taken

    assert found is not None
    assert "metadata" in [one.kind for one in found.unknown]


def test_takes_newest_of_several_indexes(index: Index) -> None:
    index.add("1.0")
    index.site.files["/first/toy/"] = index.site.files["/simple/toy/"]
    index.add("2.0")

    found = find_on(index.site.url("/first/"), index.site.url("/simple/"))

    assert found.choice.taken is not None
    assert str(found.choice.taken.offer.version) == "2.0"


def test_nearest_has_least_against_it(index: Index) -> None:
    index.add("3.0", "cp312-cp312-win_amd64")
    index.add("2.0+cu128torch2.8")
    index.add("1.0+cu130torch2.10")

    found = index.pick().choice.nearest

    assert found is not None
    assert str(found.offer.version) == "1.0+cu130torch2.10"


def test_tells_source_where_there_is_no_wheel(index: Index) -> None:
    index.site.files["/simple/toy/"] = b'<a href="../../files/toy-1.0.tar.gz">toy-1.0.tar.gz</a>'

    found = index.pick().choice

    assert (found.taken, found.nearest) == (None, None)
    assert found.sdist is not None


def test_stops_reading_and_says_so(index: Index) -> None:
    for number in range(70):
        index.add(f"1.{number}", TAG, "torch==2.4.*", has_metadata=True)

    found = index.pick().choice

    assert found.is_cut
    assert found.nearest is not None
    assert str(found.nearest.offer.version) == "1.69"


def test_extras_count_and_are_named(index: Index) -> None:
    index.add("1.0", TAG, 'torch==2.11.*; extra == "cuda13"', 'torch==2.4.*; extra == "cuda12"')

    plain, asked, other = (index.pick(wanted=f"toy{one}") for one in ("", "[cuda13]", "[cuda12]"))

    assert plain.choice.taken is not None
    assert plain.choice.taken.extras == ("cuda13", "cuda12")
    assert "'toy[cuda13] @ http" in asked.commands["pip"]
    assert other.choice.taken is None


@pytest.mark.parametrize("has_metadata", [True, False])
def test_downloads_no_wheel(has_metadata: bool, index: Index) -> None:  # noqa: FBT001
    index.add("1.0", TAG, "torch==2.11.*", has_metadata=has_metadata)
    index.add("2.0", TAG, "torch==2.15.*", has_metadata=has_metadata)

    found = index.pick(MACHINE).choice.taken

    assert found is not None
    assert str(found.offer.version) == "1.0"
    asked = [size for _, size in index.downloads()]
    assert sum(asked) < PAYLOAD / 4
    assert bool(asked) is not has_metadata
