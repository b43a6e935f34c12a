"""HTML pages of a site; tests/e2e/publish/test_site.py opens them in a browser."""

from __future__ import annotations

import pytest

from cuwheel.build.wheelhouse.facts import WheelFacts
from cuwheel.publish.index.pages import ListedWheel, people_pages
from tests.build.wheelhouse.test_simple_api import WHEEL, make_entry
from tests.support.golden import Golden

FACTS = WheelFacts(
    cuda=(13,),
    archs=("90", "100"),
    ptx=("120",),
    drivers=("580.65.06",),
    grid=(("toy/a.so", ("sm_90", "PTX 120")), ("toy/b.so", ("sm_90", "sm_100"))),
)


def listed(**facts: object) -> ListedWheel:
    name = str(facts.pop("name", WHEEL))
    entry = make_entry(name, **{"framework": "torch==2.11.*", "has_statement": True, **facts})
    return ListedWheel(entry=entry, cuda="cu130", facts=FACTS)


@pytest.mark.parametrize(
    ("name", "files", "address"),
    [
        ("site", "", ""),
        ("address", "", "https://wheels.invalid"),
        ("elsewhere", "https://files.invalid/v1", "https://wheels.invalid"),
    ],
)
def test_pages_show_all_facts_of_wheels(
    name: str, files: str, address: str, golden: Golden
) -> None:
    """The newest version is first, and a yanked one has its reason."""
    wheels = [
        listed(name="toy-1.9-py3-none-any.whl", yanked="a < b & c"),
        listed(name="toy-1.10-py3-none-any.whl"),
        listed(),
        listed(name="other-2.0+cu130-py3-none-any.whl"),
    ]

    home, pages = people_pages(wheels, files=files, address=address)

    assert {*pages} == {"toy/index.html", "other/index.html"}
    golden.check(f"site/{name}-project.html", pages["toy/index.html"].decode())
    golden.check("site/home.html", home.decode())
