"""The session `diagnose`, in environments that are broken on purpose."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.base.system.console import Console
from cuwheel.build.recipe.recipe import Recipe
from cuwheel.check.cuda.library_choice import LibraryPerCuda
from cuwheel.check.diagnose.diagnose import DiagnoseOptions, callers_environment, diagnose
from cuwheel.check.diagnose.facts import environment
from cuwheel.cli.dispatch import run_command
from tests.support.check.environments import CALL_OF_TORCH, CALLERS_PATH, Env, look_into, verdict_on
from tests.support.documents import read_document
from tests.support.factories import make_recipe

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(
    env: Env, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Run the command; return its exit code and output."""

    def run(*argv: str, **variables: str) -> tuple[int, str]:
        for name, value in {"PATH": "/usr/bin:/bin", "HOME": str(env.folder), **variables}.items():
            monkeypatch.setenv(name, value)
        status = run_command("diagnose", ["--python", str(env.python), *argv], Console())
        return status, capsys.readouterr().out

    return run


def test_works_with_sound_environment(env: Env, driver: Path) -> None:
    env.install_torch(requires=("nvidia-cuda-runtime==13.0.96",))
    env.install("nvidia_cuda_runtime", version="13.0.96")
    env.install("ext", {"ext/libext.so": env.extension(CALL_OF_TORCH % ("sound()", "sound()"))})

    report = look_into(env, LD_LIBRARY_PATH=str(driver))

    assert report.verdict == "ok", list(map(str, report.verdicts))
    whats = [verdict.what for verdict in report.verdicts]
    assert "torch 2.11.0+cu130 sees 1 GPU, CUDA 13.0" in whats


@pytest.mark.parametrize(
    ("variables", "status"),
    [({}, 0), ({"STUB_VISIBLE": "0"}, 2), ({"CUDA_HOME": "/a:/b"}, 2)],
)
def test_exit_code_is_of_worst_verdict(
    env: Env, driver: Path, command: Command, variables: dict[str, str], status: int
) -> None:
    env.install_torch()

    code, output = command("--json", "torch", LD_LIBRARY_PATH=str(driver), **variables)

    document = read_document(output, "diagnose")
    assert (code, document["exit_code"]) == (status, status), document["verdicts"]


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--fail-on", "warning"), 1)])
def test_warning_fails_on_request(
    env: Env, command: Command, options: tuple[str, ...], status: int
) -> None:
    env.install_torch(requires=("nvidia-nvjitlink==13.0.88",))
    env.install("nvidia_nvjitlink", version="13.0.39")

    code, output = command(*options)

    assert (code, output.splitlines()[-1][:18]) == (status, "diagnose: warning ")


def test_machine_without_gpu_passes(command: Command) -> None:
    code, output = command("--fail-on", "warning")

    assert code == 0
    assert "  note     " in output


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
    ("variables", "text"),
    [
        ({}, "ok: many 1.2.3: `python -m many.check` prints FINE with libmany_cuda130.so"),
        ({"MANY": "127"}, "broken: many 1.2.3 lacks libmany_cuda127.so"),
    ],
)
def test_reads_from_recipe_how_package_chooses(
    env: Env, driver: Path, choosing: Recipe, variables: dict[str, str], text: str
) -> None:
    environ = {"LD_LIBRARY_PATH": str(driver), **variables}

    report = look_into(env, "many", recipes=(choosing,), **environ)

    assert text in [f"{verdict.level}: {verdict.what}" for verdict in report.verdicts]
    assert report.chosen_libraries["many"].held == ("128", "130")
    assert report.machine.settings.get("MANY") == variables.get("MANY")


def test_shows_cause_fix_and_anchor(env: Env) -> None:
    argv = [sys.executable, "-m", "cuwheel", "diagnose", "--python", str(env.python), "nonesuch"]
    environ = {"PATH": CALLERS_PATH, "HOME": str(env.folder)}

    done = process.run(argv, env=environ, cwd=ROOT, check=False)

    assert done.status == 2
    assert "  broken   nonesuch " in done.output
    assert "  because  " in done.output
    assert f"  run      uv pip install --python {env.python} nonesuch\n" in done.output
    assert "  more     TROUBLESHOOTING.md#diagnose-not-installed" in done.output
    assert done.output.splitlines()[-1].startswith("diagnose: broken (")


def test_imports_only_framework_that_named_package_requires(env: Env) -> None:
    env.install_torch()
    env.install("jax", {"jax/__init__.py": b"import os; os.abort()"})
    env.install("ext", {"ext/libext.so": env.extension("")}, requires=("torch>=2",))

    report = look_into(env, "ext")

    assert [framework.name for framework in report.environment.frameworks] == ["torch"]


@pytest.mark.parametrize("kind", ["text", "folder", "missing", "deleted venv"])
def test_refuses_python_that_is_none(env: Env, kind: str) -> None:
    python = env.folder / "venv" / "bin" / "python"
    python.unlink()
    if kind == "text":
        python.write_text("no program")
        python.chmod(0o755)
    elif kind == "folder":
        python.mkdir()
    elif kind == "deleted venv":
        python.symlink_to(env.folder / "gone")

    report = look_into(env)

    assert verdict_on(report, "python-not-found").level == "broken"
    assert report.machine.surroundings is not None


@pytest.mark.parametrize(
    ("environ", "callers"),
    [
        ({"PYTHONPATH": str(ROOT)}, {}),
        ({"PYTHONPATH": str(ROOT), "CUWHEEL_CALLERS_PYTHONPATH": "/x"}, {"PYTHONPATH": "/x"}),
        ({"PYTHONPATH": f"{ROOT}:/x"}, {"PYTHONPATH": "/x"}),
        ({"CUWHEEL_CACHE": "/c", "PYTHONPYCACHEPREFIX": "/c/engine/x", "A": "b"}, {"A": "b"}),
    ],
)
def test_restores_callers_environment(environ: dict[str, str], callers: dict[str, str]) -> None:
    assert callers_environment(environ) == {**callers, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.e2e
def test_goes_on_past_python_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "FACTS_TIME_LIMIT", 1.0)
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nsleep 100\n")
    program.chmod(0o755)

    options = DiagnoseOptions(python=str(program), start=tmp_path, project=tmp_path)
    report = diagnose(options, {"PATH": "/usr/bin"}, ())

    [verdict] = [verdict for verdict in report.verdicts if verdict.level == "broken"]
    assert verdict.cause.endswith("no answer within 1 s")
