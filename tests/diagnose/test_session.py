"""`diagnose` against environments that are broken on purpose, each with real files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.dispatch import run_command
from cuwheel.model.recipe import LibraryPerCuda
from cuwheel.paths import ROOT
from cuwheel.system import process
from cuwheel.system.console import Console
from tests.support.diagnosed import CALL_OF_TORCH, CALLERS_PATH, Env, look_into, verdict_on
from tests.support.documents import read_document
from tests.support.factories import make_recipe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuwheel.model.recipe import Recipe


@pytest.fixture
def command(
    env: Env, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run the command; give its exit code and what it prints."""

    def run(*words: str, **variables: str) -> tuple[int, str]:
        for name, value in {"PATH": "/usr/bin:/bin", "HOME": str(env.folder), **variables}.items():
            monkeypatch.setenv(name, value)
        status = run_command("diagnose", ["--python", str(env.python), *words], Console())
        return status, capsys.readouterr().out

    return run


def test_works_with_sound_environment(env: Env, driver: Path) -> None:
    env.install_torch(requires=("nvidia-cuda-runtime==13.0.96",))
    env.install("nvidia_cuda_runtime", version="13.0.96")
    env.install("ext", {"ext/libext.so": env.extension(CALL_OF_TORCH % ("sound()", "sound()"))})

    report = look_into(env, LD_LIBRARY_PATH=str(driver))

    assert report.level == "ok", [str(one) for one in report.verdicts]
    assert "torch 2.11.0+cu130 sees 1 GPU, CUDA 13.0" in [one.what for one in report.verdicts]


@pytest.mark.parametrize(
    ("variables", "status"),
    [({}, 0), ({"STUB_VISIBLE": "0"}, 2), ({"CUDA_HOME": "/a:/b"}, 2)],
)
def test_exit_code_tells_worst_verdict(
    env: Env,
    driver: Path,
    command: Callable[..., tuple[int, str]],
    variables: dict[str, str],
    status: int,
) -> None:
    env.install_torch()

    ended, text = command("--json", "torch", LD_LIBRARY_PATH=str(driver), **variables)

    told = read_document(text, "diagnose")
    assert (ended, told["exit_code"]) == (status, status), told["verdicts"]


@pytest.mark.parametrize(("words", "status"), [((), 0), (("--fail-on", "warning"), 1)])
def test_warning_fails_where_that_is_asked(
    env: Env, command: Callable[..., tuple[int, str]], words: tuple[str, ...], status: int
) -> None:
    env.install_torch(requires=("nvidia-nvjitlink==13.0.88",))
    env.install("nvidia_nvjitlink", version="13.0.39")

    ended, text = command(*words)

    assert (ended, text.splitlines()[-1][:18]) == (status, "diagnose: warning ")


def test_machine_without_gpu_passes(command: Callable[..., tuple[int, str]]) -> None:
    ended, text = command("--fail-on", "warning")

    assert ended == 0
    assert "  note     this machine has no NVIDIA GPU\n" in text


@pytest.fixture
def choosing(env: Env) -> Recipe:
    """The recipe of an installed package, which chooses among its two libraries."""
    env.install_torch()
    loads = "import ctypes, os\nname = 'libmany_cuda' + os.environ.get('MANY', '130') + '.so'\n"
    loads += "ctypes.CDLL(os.path.join(os.path.dirname(__file__), name))\nprint('FINE')\n"
    library = env.compile("libmany.so", "")
    libraries = {f"many/libmany_cuda{tag}.so": library for tag in (128, 130)}
    env.install("many", {"many/__init__.py": b"", "many/check.py": loads.encode(), **libraries})
    declared = LibraryPerCuda(
        file="many/libmany_cuda{toolkit_tag}.so",
        framework="torch",
        variable="MANY",
        check="many.check",
        success="FINE",
    )
    return make_recipe(name="many", library_per_cuda=declared)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "ok: many 1.2.3: `python -m many.check` prints FINE with libmany_cuda130.so"),
        ({"MANY": "127"}, "broken: many 1.2.3 lacks libmany_cuda127.so"),
    ],
)
def test_knows_from_recipe_how_package_chooses(
    env: Env, driver: Path, choosing: Recipe, asked: dict[str, str], said: str
) -> None:
    variables = {"LD_LIBRARY_PATH": str(driver), **asked}

    report = look_into(env, "many", recipes=(choosing,), **variables)

    assert said in [f"{one.level}: {one.what}" for one in report.verdicts]
    assert report.chosen_libraries["many"].held == ("128", "130")
    assert dict(report.settings).get("MANY") == asked.get("MANY")


def test_shows_cause_fix_and_anchor(env: Env) -> None:
    words = [sys.executable, "-m", "cuwheel", "diagnose", "--python", str(env.python), "nonesuch"]
    environ = {"PATH": CALLERS_PATH, "HOME": str(env.folder)}

    done = process.run(words, env=environ, cwd=ROOT, check=False)

    assert done.status == 2
    assert "  broken   nonesuch isn't installed" in done.output
    assert "  because  " in done.output
    assert f"  run      uv pip install --python {env.python} nonesuch\n" in done.output
    assert "  more     TROUBLESHOOTING.md#diagnose-not-installed" in done.output
    assert done.output.splitlines()[-1].startswith("diagnose: broken (")


def test_asks_only_framework_that_named_package_requires(env: Env) -> None:
    env.install_torch()
    env.install("jax", {"jax/__init__.py": b"import os; os.abort()"})
    env.install("ext", {"ext/libext.so": env.extension("")}, requires=("torch>=2",))

    report = look_into(env, "ext")

    assert [one.name for one in report.frameworks] == ["torch"]


@pytest.mark.parametrize("what", ["text", "folder", "missing", "deleted venv"])
def test_names_python_that_is_none(env: Env, what: str) -> None:
    python = env.folder / "venv" / "bin" / "python"
    python.unlink()
    if what == "text":
        python.write_text("no program")
        python.chmod(0o755)
    elif what == "folder":
        python.mkdir()
    elif what == "deleted venv":
        python.symlink_to(env.folder / "gone")

    report = look_into(env)

    assert verdict_on(report, "python-not-found").level == "broken"
    assert report.host is not None
