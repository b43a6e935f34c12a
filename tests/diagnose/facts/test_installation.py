"""What pip or uv has left in an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.diagnose.facts.environment import PythonEnvironment, ask_environment
from cuwheel.diagnose.facts.installation import InstallationFacts, read_installation

if TYPE_CHECKING:
    from tests.support.diagnosed import Env

_ENVIRON = {"PATH": "/usr/bin:/bin"}


def asked(env: Env, **variables: str) -> PythonEnvironment:
    return ask_environment(env.python, {**_ENVIRON, **variables})


def read(environment: PythonEnvironment) -> InstallationFacts:
    installed = tuple(environment.distributions.values())
    return read_installation(environment, installed, installed, ())


def test_says_whose_file_is_in_place(env: Env) -> None:
    env.install("first", {"both/a.py": b"1", "both/__init__.py": b"1"})
    env.install("second", {"both/a.py": b"2", "both/__init__.py": b"2"})

    [found] = read(asked(env)).shared

    assert [one.name for one in found.owners] == ["first", "second"]
    assert found.in_place == "second"


def test_takes_equal_files_and_namespaces_for_no_fault(env: Env) -> None:
    env.install("first", {"both/a.py": b"1", "both/__init__.py": b"1", "tests/a.py": b"1"})
    env.install("second", {"both/a.py": b"1", "both/__init__.py": b"", "tests/a.py": b"2"})

    assert read(asked(env)).shared == ()


def test_does_not_judge_shared_library_by_its_size(env: Env) -> None:
    env.install("first", {"both/a.so": b"first"})
    env.install("second", {"both/a.so": b"the second"})

    assert read(asked(env)).faults == {}


def test_finds_what_hides_a_package(env: Env) -> None:
    env.install("ext", {"ext/__init__.py": b"", "tests/__init__.py": b""})
    work = env.folder / "work"
    for folder in ("ext", "tests"):
        (work / folder).mkdir(parents=True)
        (work / folder / "__init__.py").touch()

    [found] = read(asked(env, PYTHONPATH=str(work))).shadows

    assert (found.module, found.path) == ("ext", work / "ext" / "__init__.py")
    assert read(asked(env)).shadows == ()


def test_takes_leftover_for_no_distribution(env: Env) -> None:
    env.install("ext")
    (env.site / "ext-1.2.3.dist-info").rename(env.site / "~xt-1.2.3.dist-info")

    environment = asked(env)

    assert (dict(environment.distributions), environment.damaged) == ({}, ())
    assert [path.name for path in environment.leftovers] == ["~xt-1.2.3.dist-info"]


def test_takes_only_folders_of_pips_for_leftovers(env: Env) -> None:
    env.install("ext", {"ext/__init__.py": b"", "other/__init__.py": b""})
    work = env.folder / "work"
    for folder in (env.site, work):
        for name in ("~", "~backup", "~xt", "~-t", "~ext"):
            (folder / name).mkdir(parents=True)
    (env.site / "ext-1.2.3.dist-info").rename(env.site / "~xt-1.2.3.dist-info")

    environment = asked(env, PYTHONPATH=str(work))

    assert {path.parent for path in environment.leftovers} == {env.site}
    names = sorted(path.name for path in environment.leftovers)
    assert names == ["~-t", "~ext", "~xt", "~xt-1.2.3.dist-info"]
    assert [(one.name, one.version) for one in environment.removed] == [("ext", "1.2.3")]
