"""Environments in which the console script runs commands, and refusals."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cuwheel import entry
from cuwheel.base import paths
from cuwheel.base.errors import UsageError
from cuwheel.cli import dispatch
from cuwheel.cli.dispatch import COMMANDS
from cuwheel.entry import PACKAGES, check_place, command_of, environment_of, path_of_caller

PERF = ("nightly", "perf")


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed cuwheel, in a folder without a project."""
    monkeypatch.setattr(paths, "ROOT", tmp_path / "site")
    monkeypatch.setattr(entry, "is_checkout", lambda: False)
    monkeypatch.delenv("CUWHEEL_PROJECT", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_no_command_means_help(arguments: list[str]) -> None:
    assert command_of(arguments) == "help"


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - PACKAGES.keys()))
def test_builds_in_environment_of_the_lock(command: str) -> None:
    special = {**dict.fromkeys(PERF, "perf"), "completions": "dev", "mcp": "mcp", "package": "dev"}

    assert environment_of(command, []) == special.get(command, "engine")


@pytest.mark.parametrize("command", sorted(PACKAGES))
def test_reads_where_it_is_installed(command: str) -> None:
    assert environment_of(command, []) == ""


@pytest.mark.parametrize("command", ["audit", "pick"])
def test_reads_in_small_environment_where_packages_lack(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setitem(PACKAGES, command, ("gone.deep", "gone"))

    assert environment_of(command, []) == "report"


@pytest.mark.parametrize("arguments", [["perf", "--help"], ["audit", "-h"], ["help", "get"]])
def test_prints_help_without_an_environment(arguments: list[str]) -> None:
    assert environment_of(arguments[0], arguments) == ""


@pytest.mark.parametrize("arguments", [["get", "--help"], ["help", "get"]])
def test_help_makes_the_environment_that_its_options_need(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    def lack(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(dispatch, "import_module", lack)

    assert environment_of(arguments[0], arguments) == "engine"


def test_fit_of_recipes_needs_the_engine() -> None:
    assert environment_of("diagnose", ["--targets"]) == "engine"


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("command", [*PACKAGES, "cache", "index", "rebuild", "toolchain", "bild"])
def test_works_without_project(command: str) -> None:
    check_place(command, [command])


@pytest.mark.usefixtures("outside")
def test_refuses_build_without_project() -> None:
    with pytest.raises(UsageError, match="cuwheel build needs a project"):
        check_place("build", ["build", "x-130"])


def test_builds_in_project(outside: Path) -> None:
    (outside / "recipes").mkdir()

    check_place("build", ["build", "x-130"])


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({"UV": "/usr/bin/uv"}, "/usr/bin"),
        ({"UV": "/usr/bin/uv", "VIRTUAL_ENV": sys.prefix}, f"{sys.prefix}/bin:/usr/bin"),
        ({}, f"{sys.prefix}/bin:/usr/bin"),
    ],
    ids=["uvx", "uv run", "a container's PATH"],
)
def test_environment_of_uvx_is_not_the_callers(variables: dict[str, str], path: str) -> None:
    assert path_of_caller({"PATH": f"{sys.prefix}/bin:/usr/bin", **variables}) == path


@pytest.mark.parametrize(
    ("words", "is_stack"),
    [
        (("torch",), False),
        (("torch", "--index", "https://h/", "--for", "python=3.12", "-q"), False),
        (("--index", "https://h/", "flash-attn", "xformers"), True),
        (("flash-attn", "--lock=pylock.toml"), True),
        (("-r", "requirements.txt"), True),
        (("pyproject.toml",), True),
    ],
)
def test_stack_runs_where_uv_is(words: tuple[str, ...], *, is_stack: bool) -> None:
    assert (environment_of("pick", ("pick", *words)) == "engine") is is_stack
