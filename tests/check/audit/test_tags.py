"""Facts from auditwheel's lists, compared with PEP 600 and glibc's releases."""

from __future__ import annotations

import pytest
from packaging.tags import parse_tag

from cuwheel.check.audit.tags import (
    describe_pythons,
    first_with,
    is_missing,
    list_tags,
    minor_of,
    oldest_glibc,
    oldest_minor,
    policies,
    policy_of,
)


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("manylinux_2_28_x86_64", "manylinux_2_28_x86_64"),
        ("manylinux2014_x86_64", "manylinux_2_17_x86_64"),
        ("manylinux_2_28_aarch64", "manylinux_2_28_aarch64"),
    ],
)
def test_knows_tag_and_its_old_name(tag: str, name: str) -> None:
    policy = policy_of(tag)

    assert policy
    assert policy.name == name


@pytest.mark.parametrize("tag", ["linux_x86_64", "win_amd64", "musllinux_1_2_x86_64", "any"])
def test_knows_no_policy_of_other_tags(tag: str) -> None:
    assert policy_of(tag) is None


def test_lists_oldest_systems_first() -> None:
    names = [policy.name for policy in policies("x86_64")]

    assert names.index("manylinux_2_17_x86_64") < names.index("manylinux_2_28_x86_64")
    assert policies("riscv64") == ()


@pytest.mark.parametrize(
    ("symbol", "missing"),
    [("GLIBC_2.17", False), ("GLIBC_2.18", True), ("GLIBC_2.2.5", False), ("OTHER_9", False)],
)
def test_finds_symbol_version_that_systems_lack(symbol: str, *, missing: bool) -> None:
    policy = policy_of("manylinux_2_17_x86_64")

    assert policy
    assert is_missing(symbol, policy) is missing


@pytest.mark.parametrize(
    ("symbols", "tag"),
    [
        ((), "manylinux_2_5_x86_64"),
        (("GLIBC_2.14", "GLIBC_2.2.5"), "manylinux_2_17_x86_64"),
        (("GLIBC_2.28",), "manylinux_2_28_x86_64"),
        (("GLIBC_99.1",), ""),
    ],
)
def test_names_oldest_systems_that_have_all(symbols: tuple[str, ...], tag: str) -> None:
    assert first_with(symbols, "x86_64") == tag


def test_reads_minor_release_of_tag() -> None:
    tags = (
        "cp312-cp312-any",
        "cp313-cp313t-any",
        "cp312-none-any",
        "cp310-abi3-any",
        "py3-none-any",
    )

    assert [minor_of(next(iter(parse_tag(tag)))) for tag in tags] == [12, 13, 12, None, None]


def test_finds_oldest_python() -> None:
    assert oldest_minor(parse_tag("cp39.cp310-abi3-any")) == 9
    assert oldest_minor(parse_tag("py3-none-any")) is None


def test_lists_tags_in_order() -> None:
    assert list_tags(parse_tag("py3.py2-none-any")) == "py2-none-any, py3-none-any"
    assert list_tags(()) == "none"


@pytest.mark.parametrize(
    ("platform", "glibc"),
    [
        ("manylinux_2_34_x86_64", "2.34"),
        ("manylinux_2_17_x86_64.manylinux2014_x86_64", "2.17"),
        ("manylinux1_x86_64", "2.5"),
        ("linux_x86_64", ""),
        ("win_amd64", ""),
    ],
)
def test_knows_the_oldest_glibc(platform: str, glibc: str) -> None:
    assert oldest_glibc(parse_tag(f"py3-none-{platform}")) == glibc


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        ("cp312-cp312", "3.12"),
        ("cp310-abi3", "3.10 or newer"),
        ("cp313-cp313t", "3.13 without GIL"),
        ("py3-none", "3"),
        ("py39-none", "3.9 or newer"),
        ("cp312-none", "3.12"),
        ("py2.py3-none", "2, 3"),
    ],
)
def test_names_pythons(tags: str, text: str) -> None:
    assert describe_pythons(parse_tag(f"{tags}-any")) == text
