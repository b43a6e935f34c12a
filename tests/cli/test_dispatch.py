"""Commands are found by name, import what they need, and take targets in one way."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from cuwheel.base.errors import CommandFailedError, InstallError, RecipeError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.base.system.console import Console
from cuwheel.build.recipe.catalogue import load_catalogue, target_names
from cuwheel.build.recipe.nox_sessions import VERBS, sessions_of
from cuwheel.check.cuda.toolkits import TOOLKITS
from cuwheel.cli.dispatch import COMMANDS, parser_of, run_command

TARGET_VERBS = [one.name for one in VERBS if one.takes == "target"]

# What a command must not load before it knows that it needs it.
LATER = {
    "audit": ("asyncio", "cuwheel.build.pipeline.pipeline", "cuwheel.build.locks", "requests"),
    "build": (
        "asyncio",
        "auditwheel",
        "cuwheel.build.toolchains.conda.install",
        "cuwheel.build.pipeline.stages",
        "requests",
    ),
    "diagnose": (
        "asyncio",
        "auditwheel",
        "cuwheel.build.pipeline.pipeline",
        "cuwheel.build.toolchains",
        "requests",
    ),
    "explain": (
        "asyncio",
        "cuwheel.check.audit",
        "cuwheel.build.pipeline.pipeline",
        "cuwheel.base.formats.wheel",
        "packaging",
    ),
}
# pyelftools, which auditwheel reads by, imports pdb, and that imports asyncio from 3.14 on.
_BY_PDB = {("audit", "asyncio")} if sys.version_info >= (3, 14) else set()
_LOADED = """
import sys
import cuwheel.__main__
from cuwheel.cli.dispatch import parser_of
parser_of(sys.argv[1])
print(*sys.modules)
"""
# As in an environment without one package; `None` is what Python takes for a module it lacks.
_WITHOUT = """
import sys
from cuwheel.__main__ import main
sys.modules[sys.argv[1]] = None
sys.exit(main(sys.argv[2:]))
"""


def test_every_session_has_its_command() -> None:
    requested = {session.command[0] for session in sessions_of(load_catalogue([ROOT]))}

    own = {name for name, module in COMMANDS.items() if module == "project"}
    assert requested == set(COMMANDS) - own


@pytest.mark.parametrize("verb", TARGET_VERBS)
def test_lists_targets_where_none_is_named(verb: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_command(verb, [], Console())

    assert caught.value.why.removesuffix(", all") == (
        f"known: {', '.join(target_names(load_catalogue([ROOT])))}"
    )
    assert f"`nox -s {verb} -- " in caught.value.fix


@pytest.mark.parametrize("verb", TARGET_VERBS)
def test_names_nearest_target(verb: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_command(verb, ["causal-conv1d-30"], Console())

    assert "causal-conv1d-130" in caught.value.why


def test_lists_toolkits_where_none_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        run_command("toolchain", [], Console())

    assert caught.value.why == f"known: {', '.join(toolkit.tag for toolkit in TOOLKITS)}"


def test_shows_why_recipe_of_target_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "a_one.py").write_text("RECIPE = 1")
    monkeypatch.setenv("CUWHEEL_PROJECT", str(tmp_path))

    with pytest.raises(RecipeError, match="can't be loaded"):
        run_command("smoke", ["a-one-130"], Console())


@pytest.mark.parametrize("name", sorted(LATER))
def test_command_loads_only_what_it_needs(name: str) -> None:
    command = [sys.executable, "-c", _LOADED, name]

    loaded = process.run(command, env={"PYTHONPATH": str(ROOT)}).output.split()

    assert f"cuwheel.cli.commands.{COMMANDS[name]}" in loaded
    result = {(name, module) for module in LATER[name] if module in loaded}
    assert result == _BY_PDB & {(name, "asyncio")}


def test_shows_which_package_its_environment_lacks() -> None:
    command = [sys.executable, "-c", _WITHOUT, "numpy", "perf"]
    cache = Path(sys.prefix).parent.parent  # where bootstrap made the environment of the tests

    with pytest.raises(CommandFailedError) as caught:
        process.run(command, env={"PYTHONPATH": str(ROOT), "CUWHEEL_CACHE": str(cache)})

    assert caught.value.status == InstallError.exit_code
    assert caught.value.tail[:3] == (
        "error: perf can't run here",
        f"  because  {sys.prefix} has no package numpy",
        (
            "  to fix   start it as `nox -s perf`, which makes and takes the environment of its "
            f"lock; where it was started so, remove {sys.prefix}: the next run makes it again"
        ),
    )


def test_never_advises_to_remove_an_environment_of_the_callers(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WITHOUT, "numpy", "perf"]

    with pytest.raises(CommandFailedError) as caught:
        process.run(command, env={"PYTHONPATH": str(ROOT), "CUWHEEL_CACHE": str(tmp_path)})

    assert "remove" not in "".join(caught.value.tail)


def test_module_of_cuwheel_that_is_missing_is_a_fault_of_cuwheel() -> None:
    command = [sys.executable, "-c", _WITHOUT, "cuwheel.cli.measuring", "perf"]

    with pytest.raises(CommandFailedError) as caught:
        process.run(command, env={"PYTHONPATH": str(ROOT)})

    assert caught.value.tail[-1].startswith("ModuleNotFoundError: ")


@pytest.mark.parametrize(
    ("arguments", "session"),
    [
        (["--help"], "build"),
        (["causal-conv1d-130", "--help"], "build-causal-conv1d-130"),
        (["causal-conv1d", "--framework", "torch==2.15.0", "--help"], "build"),
    ],
)
def test_help_of_a_build_names_its_session(
    arguments: list[str], session: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run_command("build", arguments, Console())

    assert capsys.readouterr().out.startswith(f"usage: nox -s {session} -- ")


@pytest.mark.parametrize("name", sorted({*COMMANDS} - {"build"}))
def test_help_names_its_session(name: str) -> None:
    assert parser_of(name).prog == f"nox -s {name} --"


def test_only_builds_publish() -> None:
    """Verbs that measure or report publish nothing.

    `install` builds with `--fallback build`, `get` after a question, `day-zero` into a folder
    of its own.
    """
    whole = re.compile(r"\bpipeline\.make\(|import make\b|run_stage\((?!\"smoke\")")
    modules = (path for path in (ROOT / "cuwheel").rglob("*.py") if path.name != "pipeline.py")

    result = {path.name for path in modules if whole.search(path.read_text())}

    assert result == {"build.py", "day_zero.py", "get.py", "install.py"}
