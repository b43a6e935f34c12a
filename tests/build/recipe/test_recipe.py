"""The values that declarations compute."""

from __future__ import annotations

import pytest

from cuwheel.build.recipe.recipe import CMake, Framework
from cuwheel.build.recipe.source import Archive, GitCommit, Sdist
from tests.support.factories import make_recipe


def test_takes_archs_of_the_release_from_old_to_new() -> None:
    archs = {"12.4": ("70", "90"), "13.0": ("100", "90a", "80", "90")}
    recipe = make_recipe(archs=archs)

    assert recipe.archs_for("12.4") == ("70", "90")
    assert recipe.archs_for("13.0") == ("80", "90", "90a", "100")
    with pytest.raises(KeyError):
        recipe.archs_for("12.8")


_OLD, _NEW = (Framework(name="torch", version=version) for version in ("2.11.0", "2.15.0"))


def test_takes_framework_of_the_release() -> None:
    plain = make_recipe(framework=_OLD)
    recipe = make_recipe(toolkits=("13.0", "13.2"), framework={"13.0": _OLD, "13.2": _NEW})

    releases = ("13.0", "13.2", "13.5")
    assert [recipe.framework_for(release) for release in releases] == [_OLD, _NEW, None]
    assert (plain.framework_for("13.2"), plain.frameworks) == (_OLD, (_OLD,))


def test_takes_settings_of_the_release() -> None:
    build = CMake(define={"A": "1", "B": {"13.0": "2"}}, env={"C": {"12.1": "3", "13.0": "4"}})
    recipe = make_recipe(build=build)

    assert recipe.settings_for("13.0") == {"A": "1", "B": "2", "C": "4"}
    assert recipe.settings_for("12.1") == {"A": "1", "C": "3"}


def test_writes_version_once() -> None:
    archive = Archive(url="https://x.invalid/v{version}/p-{version}.tar.gz", sha256="0" * 64)
    commit = GitCommit(repository="r", commit="a" * 40)

    filled = make_recipe(version="1.2.3", source=archive).filled_source

    assert isinstance(filled, Archive)
    assert filled.url == "https://x.invalid/v1.2.3/p-1.2.3.tar.gz"
    assert make_recipe(source=commit).filled_source == commit


@pytest.mark.parametrize(("declared", "version"), [({}, "1.2.3"), ({"version": "1.2"}, "1.2")])
def test_sdist_is_of_the_recipes_version_unless_declared(
    declared: dict[str, str], version: str
) -> None:
    source = Sdist(project="p", sha256="0" * 64, **declared)  # type: ignore[arg-type]

    filled = make_recipe(version="1.2.3", source=source).filled_source

    assert isinstance(filled, Sdist)
    assert filled.version == version
