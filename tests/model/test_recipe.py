"""The little that declarations work out for themselves."""

from __future__ import annotations

import pytest

from tests.support.factories import make_recipe


@pytest.mark.parametrize(
    ("release", "archs"),
    [("12.4", ("70", "80", "90")), ("13.0", ("80", "90", "90a", "100")), ("12.8", ("80", "90"))],
)
def test_adds_archs_of_the_release(release: str, archs: tuple[str, ...]) -> None:
    recipe = make_recipe(
        archs=("80", "90"), more_archs={"13.0": ("100", "90a"), "12.4": ("70", "80")}
    )

    assert recipe.archs_for(release) == archs
