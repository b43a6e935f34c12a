from __future__ import annotations

import re

import pytest

from cuwheel.conda.dependency import CondaDependency, parse_dependency


@pytest.mark.parametrize(
    ("line", "spec"),
    [
        ("toy", "toy"),
        ("Toy ==1.0", "toy ==1.0"),
        ("toy==1.0", "toy ==1.0"),
        ("toy 1.0", "toy ==1.0"),
        ("toy =1.0", "toy 1.0.*"),
        ("toy=1.0", "toy 1.0.*"),
        ("toy 1.0.*", "toy 1.0.*"),
        ("toy >=2,<3", "toy >=2,<3"),
        ("toy>=2|<1", "toy >=2|<1"),
        ("toy ==1.0 h1_0", "toy ==1.0 h1_0"),
        ("toy 1.0 h1_0", "toy ==1.0 h1_0"),
        ("toy =1.0 h1_0", "toy ==1.0 h1_0"),
        ("toy * *_cuda", "toy * *_cuda"),
        ("nvidia::_toy-x.y_z ==1!1.0+local", "nvidia::_toy-x.y_z ==1!1.0+local"),
    ],
)
def test_asks_rattler_for(line: str, spec: str) -> None:
    assert parse_dependency(line).match_spec == spec


def test_keeps_each_part() -> None:
    assert parse_dependency(" nvidia::toy ==1.0 h1_0 ") == CondaDependency(
        name="toy", version="==1.0", build="h1_0", channel="nvidia"
    )


@pytest.mark.parametrize(
    "line",
    [
        *("", "==1.0", "toy ==", "toy >=1, <2", "toy=1.0=h1_0", "toy[version='1']", "toy (>=1)"),
        *("toy 1.0 h1_0 more", "a/b::toy", "toy @ x", "toy 1.0\nother"),
    ],
)
def test_refuses(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(line) or "^$"):
        parse_dependency(line)
