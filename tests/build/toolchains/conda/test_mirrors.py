"""CUWHEEL_CONDA_MIRROR, and addresses translated to a mirror and back."""

from __future__ import annotations

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.build.toolchains.conda.mirrors import MIRRORS_VARIABLE, Mirrors

FORGE = "https://conda.anaconda.org/conda-forge"
FILE = "/linux-64/cuda-nvcc-12.2.140-hcdd1206_0.conda"


def mirrors(value: str) -> Mirrors:
    return Mirrors.of({MIRRORS_VARIABLE: value})


@pytest.mark.parametrize("url", [FORGE, FORGE + FILE])
def test_leaves_addresses_alone_without_mirror(url: str) -> None:
    assert mirrors("").url_for(url) == url


@pytest.mark.parametrize(
    "value",
    [
        "https://mirror.invalid/forge",
        "https://mirror.invalid/forge/",
        "conda-forge=https://mirror.invalid/forge",
    ],
    ids=["common", "with slash", "named"],
)
@pytest.mark.parametrize("rest", ["", FILE, "/noarch/repodata.json"])
def test_puts_mirror_in_place_of_channel(value: str, rest: str) -> None:
    assert mirrors(value).url_for(FORGE + rest) == f"https://mirror.invalid/forge{rest}"


def test_leaves_channels_alone_that_have_no_mirror() -> None:
    named = mirrors("nvidia=https://mirror.invalid/nv")

    assert named.url_for(FORGE + FILE) == FORGE + FILE


def test_prefers_named_mirror_to_common_one() -> None:
    both = mirrors("https://mirror.invalid/all conda-forge=https://mirror.invalid/forge")

    assert both.url_for(FORGE + FILE) == f"https://mirror.invalid/forge{FILE}"


@pytest.mark.parametrize(
    ("value", "part", "fix"),
    [
        ("/srv/mirror", "CUWHEEL_CONDA_MIRROR is /srv/mirror", "write file:///srv/mirror"),
        ("nvidia=/srv/mirror", "CUWHEEL_CONDA_MIRROR is /srv", "write file:///srv/mirror"),
        ("https://a.invalid https://b.invalid", "has 2 mirrors", "conda-forge=https://"),
    ],
)
def test_explains_what_to_write_instead(value: str, part: str, fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        mirrors(value)

    assert part in caught.value.what
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    "address", ["https://Mirror.EXAMPLE/forge/", "https://mirror.example:443/forge"]
)
def test_has_one_form_of_an_address(address: str) -> None:
    """As rattler writes the addresses of files."""
    assert mirrors(address).url_for(FORGE) == "https://mirror.example/forge"
