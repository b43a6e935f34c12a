from __future__ import annotations

from pathlib import Path

from cuwheel.diagnose.facts.environment import Distribution, PythonEnvironment
from cuwheel.diagnose.rules.requirements import find_unmet_requirements


def make_environment(**installed: tuple[str, ...]) -> PythonEnvironment:
    """Distributions, each of version 1.0, with what they require."""
    made = {
        name: Distribution(
            name=name,
            version="1.0",
            site=Path("site"),
            metadata=Path("site"),
            requires=requires,
            libraries=(),
        )
        for name, requires in installed.items()
    }
    return PythonEnvironment(
        python=Path("python"),
        version="3.12.1",
        prefix=Path("prefix"),
        sites=(),
        suffixes=(".so",),
        is_conda=False,
        markers={"python_version": "3.12", "sys_platform": "linux"},
        distributions=made,
    )


def told(environment: PythonEnvironment) -> list[str]:
    return [
        f"{one.owner} wants {one.asked}, has {one.installed or 'none'}"
        for one in find_unmet_requirements(environment)
    ]


def test_finds_nothing_where_all_agree() -> None:
    assert told(make_environment(a=("b>=1", "c; sys_platform == 'win32'"), b=())) == []


def test_finds_missing_and_other_version() -> None:
    found = told(make_environment(a=("b==2.0", "C_c<3"), b=()))

    assert found == ["a 1.0 wants b==2.0, has 1.0", "a 1.0 wants C_c<3, has none"]


def test_follows_extra_only_where_it_is_asked_for() -> None:
    wants = ('c; extra == "x"', 'd; extra == "y"')

    assert told(make_environment(a=("b[x]",), b=wants)) == ["b 1.0 wants c, has none"]
    assert told(make_environment(b=wants)) == []


def test_goes_on_past_what_is_no_requirement() -> None:
    assert told(make_environment(a=("!!", "b ; nonsense == 'x'", "c"))) == [
        "a 1.0 wants c, has none"
    ]


def test_ends_where_extras_ask_for_each_other() -> None:
    wants = make_environment(a=('b[x]; extra == "x"', "a[x]"), b=('a[x]; extra == "x"',))

    assert told(wants) == []


def test_finds_own_part_that_no_extra_takes() -> None:
    wants = ('jax-gpu==2.0; extra == "gpu"', 'jax-gpu<1; extra == "old"', 'b==9; extra == "gpu"')

    found = told(make_environment(jax=wants, **{"jax-gpu": ()}, b=()))

    assert found == ["jax 1.0 wants jax-gpu==2.0, has 1.0"]
    assert told(make_environment(jax=(*wants, 'jax-gpu; extra == "a"'), **{"jax-gpu": ()})) == []
