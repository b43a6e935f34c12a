from __future__ import annotations

from packaging.tags import parse_tag

from cuwheel.audit.tags import list_tags, minor_of, oldest_minor


def test_reads_minor_release_of_tag() -> None:
    tags = ("cp312-cp312-any", "cp313-cp313t-any", "cp310-abi3-any", "py3-none-any")

    assert [minor_of(next(iter(parse_tag(tag)))) for tag in tags] == [12, 13, None, None]


def test_finds_oldest_python() -> None:
    assert oldest_minor(parse_tag("cp39.cp310-abi3-any")) == 9
    assert oldest_minor(parse_tag("py3-none-any")) is None


def test_lists_tags_in_order() -> None:
    assert list_tags(parse_tag("py3.py2-none-any")) == "py2-none-any, py3-none-any"
    assert list_tags(()) == "none"
