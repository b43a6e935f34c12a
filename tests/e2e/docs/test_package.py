"""The package in an empty environment, as pip, uvx and pipx install it, and its commands."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import tomli

from cuwheel.base.errors import EXIT_CODES
from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import run
from tests.support.factories import write_wheel
from tests.support.packages.cuwheel_package import build_package

pytestmark = pytest.mark.e2e

LOG = ROOT / "tests" / "logs" / "raw" / "nvcc-not-found--make.log"

_AT_MOST = 24  # times what `python -c pass` takes; 18 were measured on 2026-11-23


@dataclass(frozen=True)
class Tool:
    """An environment with cuwheel, and a home whose cache is empty at first."""

    environment: Path
    home: Path

    def run(
        self, *words: str, within: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """In a folder, or an empty one, as a person's shell starts it."""
        return subprocess.run(
            [str(self.environment / "bin" / "cuwheel"), *words],
            cwd=within or self.home,
            env={**_plain_environment(), "HOME": str(self.home), "COLUMNS": "200", **variables},
            capture_output=True,
            text=True,
            check=False,
        )


def _plain_environment() -> dict[str, str]:
    """This process's, without what starts cuwheel."""
    own = ("PYTHON", "CUWHEEL_", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_package("wheel", ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def tool(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Tool:
    folder = tmp_path_factory.mktemp("tool")
    (folder / "home").mkdir()
    run([sys.executable, "-m", "venv", folder / "env"], env=dict(os.environ))
    pip = [str(folder / "env" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    run([*pip, str(wheel)], env=_plain_environment())
    return Tool(folder / "env", folder / "home")


def test_readers_of_logs_and_machines_need_no_more(tool: Tool) -> None:
    explained = tool.run("explain", str(LOG))
    diagnosed = tool.run("diagnose", "--fail-on", "never", "--json")

    assert "nvcc is not installed" in explained.stdout
    assert (diagnosed.returncode, diagnosed.stdout[:1]) == (0, "{")
    assert not (tool.home / ".cache").exists()


def test_oldest_packages_that_are_named_do(wheel: Path, tmp_path: Path) -> None:
    settings = tomli.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = [one.replace(">=", "==") for one in settings["dependencies"]]
    run([sys.executable, "-m", "venv", tmp_path / "env"], env=dict(os.environ))
    pip = [str(tmp_path / "env" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    run([*pip, "--only-binary", ":all:", str(wheel), *oldest], env=_plain_environment())
    tool = Tool(tmp_path / "env", tmp_path)

    explained = tool.run("explain", str(LOG))
    diagnosed = tool.run("diagnose", "--fail-on", "never", "--json")

    assert "nvcc is not installed" in explained.stdout
    assert (diagnosed.returncode, diagnosed.stdout[:1]) == (0, "{"), diagnosed.stderr


def test_audit_makes_its_environment_once(tool: Tool, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {"tests/__init__.py": b""}, name="pkg", tag="py3-none-any")

    first, second = (tool.run("audit", str(wheel)) for _ in range(2))

    assert "making cuwheel's own environment from envs/report.lock (once)" in first.stderr
    assert "making" not in second.stderr
    assert first.returncode == second.returncode == EXIT_CODES["audit-warning"]
    assert first.stdout == second.stdout


def test_pick_asks_an_index_of_ones_own(tool: Tool, tmp_path: Path) -> None:
    write_wheel(tmp_path, {"pkg/__init__.py": b""}, name="pkg", tag="py3-none-any")

    done = tool.run("pick", "pkg", "--index", str(tmp_path), "--quiet")

    assert done.returncode == 0, done.stderr
    assert "pip install" in done.stdout


@pytest.mark.nightly
def test_neighbours_and_working_directory_do_not_get_in(tool: Tool) -> None:
    """A module beside the person's own work may be called as one of the engine's packages."""
    folder = tool.home / "own"
    folder.mkdir()
    for name in ("rich", "packaging", "cuwheel"):
        (folder / f"{name}.py").write_text("raise SystemExit('not this one')")

    done = tool.run("cache", within=folder)

    assert done.returncode == 0, done.stderr
    assert "not this one" not in done.stderr + done.stdout


def test_first_project_builds_with_cuwheel_and_with_nox(tool: Tool, shared_cache: Path) -> None:
    pip = [str(tool.environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "nox"]
    run(pip, env=_plain_environment())
    cache = {"CUWHEEL_CACHE": str(shared_cache)}

    made = tool.run("init", "wheels")
    project = tool.home / "wheels"
    built = tool.run("build", "hello-cuda-130", within=project, **cache)
    again = subprocess.run(
        [str(tool.environment / "bin" / "nox"), "-s", "build-hello-cuda-130"],
        cwd=project,
        env={**_plain_environment(), **cache},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (made.returncode, built.returncode, again.returncode) == (0, 0, 0), built.stderr
    [wheel] = (project / "dist").glob("*.whl")
    assert wheel.name.startswith("hello_cuda-1.0.0+cu130-py3-none-manylinux_")
    assert f"{wheel.name} is up to date: nothing to do" in again.stderr


def test_explains_in_less_than_a_third_of_a_second(tool: Tool) -> None:
    """As a multiple of what Python takes to do nothing, 14 ms: other machines have other times."""
    python, script = (str(tool.environment / "bin" / name) for name in ("python", "cuwheel"))

    def seconds(*words: str) -> float:
        """Processor time: what waits for other tests is no fault of this one."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, check=True, capture_output=True, env=_plain_environment())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    nothing = min(seconds(python, "-c", "pass") for _ in range(9))
    explained = min(seconds(script, "explain", str(LOG)) for _ in range(9))

    assert explained / nothing < _AT_MOST


def test_session_writes_what_the_tests_are_about(
    wheel: Path, tmp_path: Path, shared_cache: Path
) -> None:
    """What a release uploads: the same bytes; never beside those of another release."""
    words = [sys.executable, "-m", "nox", "-s", "package", "--", str(tmp_path / "package")]
    environ = {**_plain_environment(), "CUWHEEL_CACHE": str(shared_cache)}
    first = subprocess.run(words, cwd=ROOT, env=environ, check=False)
    again = subprocess.run(words, cwd=ROOT, env=environ, check=False, capture_output=True)

    names = {path.name for path in (tmp_path / "package").iterdir()}
    assert first.returncode == 0
    assert names == {wheel.name, wheel.name.partition("-py3")[0] + ".tar.gz"}
    assert (tmp_path / "package" / wheel.name).read_bytes() == wheel.read_bytes()
    assert again.returncode != 0
    assert b"isn't empty" in again.stderr + again.stdout
