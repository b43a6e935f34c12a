"""The choice between several wheels, and how little is read for it."""

from __future__ import annotations

import pytest

from tests.support.check.offers import MACHINE, PAYLOAD, TAG, Index, find_on

_OTHER_TAGS = (
    *("py3-none-any", "cp310-abi3-manylinux_2_28_x86_64"),
    TAG.replace("2_28", "2_17"),
)


@pytest.mark.parametrize(
    ("wheels", "wanted", "name"),
    [
        ([("1.0", TAG), ("1.10", TAG), ("1.9", TAG)], "toy", f"toy-1.10-{TAG}"),
        ([("1.0", TAG), ("1.0-10", TAG), ("1.0-9", TAG)], "toy", f"toy-1.0-10-{TAG}"),
        ([("1.0", tag) for tag in (*_OTHER_TAGS, TAG)], "toy", f"toy-1.0-{TAG}"),
        ([("1.0", TAG), ("2.0", TAG)], "toy<2", f"toy-1.0-{TAG}"),
    ],
    ids=["newest", "build tag", "tag that installers prefer", "wanted version"],
)
def test_takes_as_installers_do(
    index: Index, wheels: list[tuple[str, str]], wanted: str, name: str
) -> None:
    for version, tag in wheels:
        index.add(version, tag)

    wheel = index.pick(wanted=wanted).wheel

    assert wheel
    assert wheel.name == f"{name}.whl"


def test_takes_older_one_if_newest_requires_other_torch(index: Index) -> None:
    index.add("1.0", TAG, "torch>=2.4")
    index.add("2.0", TAG, "torch==2.15.*")

    report = index.pick()

    assert report.wheel
    assert report.wheel.version == "1.0"
    assert report.newer
    assert [reason.kind for reason in report.newer.reasons] == ["framework"]


@pytest.mark.parametrize("content", [b"", b"garbage" * 99, None])
def test_takes_older_one_if_newest_is_damaged_or_gone(content: bytes | None, index: Index) -> None:
    index.add("1.0")
    path = f"/files/{index.add('2.0').name}"
    if content is None:
        del index.site.files[path]
    else:
        index.site.files[path] = content

    report = index.pick()

    assert report.wheel
    assert report.wheel.version == "1.0"
    assert report.newer
    assert [reason.kind for reason in report.newer.reasons] == ["metadata"]


def test_wheel_that_is_not_read_in_parts_may_fit(index: Index) -> None:
    index.add("2.0")
    index.site.knows_range = False

    wheel = index.pick().wheel

    assert wheel
    assert "metadata" in [reason.kind for reason in wheel.unknown]


def test_takes_newest_of_several_indexes(index: Index) -> None:
    index.add("1.0")
    index.site.files["/first/toy/"] = index.site.files["/simple/toy/"]
    index.add("2.0")

    report = find_on(index.site.url("/first/"), index.site.url("/simple/"))

    assert report.wheel
    assert report.wheel.version == "2.0"


def test_nearest_has_least_against_it(index: Index) -> None:
    index.add("3.0", "cp312-cp312-win_amd64")
    index.add("2.0+cu128torch2.8")
    index.add("1.0+cu130torch2.10")

    wheel = index.pick().nearest

    assert wheel
    assert wheel.version == "1.0+cu130torch2.10"


def test_names_source_if_there_is_no_wheel(index: Index) -> None:
    index.site.files["/simple/toy/"] = b'<a href="../../files/toy-1.0.tar.gz">toy-1.0.tar.gz</a>'

    report = index.pick()

    assert (report.wheel, report.nearest) == (None, None)
    assert report.sdist is not None


@pytest.mark.e2e
def test_stops_reading(index: Index) -> None:
    for number in range(70):
        index.add(f"1.{number}", TAG, "torch==2.4.*", has_metadata=True)

    report = index.pick()

    assert not report.all_read
    assert report.nearest
    assert report.nearest.version == "1.69"


def test_extras_count_and_are_named(index: Index) -> None:
    index.add("1.0", TAG, 'torch==2.11.*; extra == "cuda13"', 'torch==2.4.*; extra == "cuda12"')

    plain, cuda13, cuda12 = (
        index.pick(wanted=f"toy{extra}") for extra in ("", "[cuda13]", "[cuda12]")
    )

    assert plain.wheel
    assert plain.wheel.extras == ("cuda13", "cuda12")
    assert "'toy[cuda13] @ http" in cuda13.commands["pip"]
    assert cuda12.wheel is None


@pytest.mark.parametrize("has_metadata", [True, False])
def test_downloads_no_wheel(has_metadata: bool, index: Index) -> None:  # noqa: FBT001
    index.add("1.0", TAG, "torch==2.11.*", has_metadata=has_metadata)
    index.add("2.0", TAG, "torch==2.15.*", has_metadata=has_metadata)

    wheel = index.pick(MACHINE).wheel

    assert wheel
    assert wheel.version == "1.0"
    sizes = [size for _, size in index.downloads()]
    assert sum(sizes) < PAYLOAD / 2
