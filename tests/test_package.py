"""The package of a release: what is in it, that it is the same bytes, that its commands run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import tomli

from cuwheel.base.errors import UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import run
from cuwheel.check.explain.catalogue import prepared
from cuwheel.entry import PACKAGES
from cuwheel.publish.rebuild.compare.report import verdict
from cuwheel.publish.rebuild.compare.wheel import compare
from cuwheel.version import __version__
from tests.support.packages.cuwheel_package import build_package, copy_sources, unpack_installed

LOG = ROOT / "tests" / "logs" / "raw" / "nvcc-not-found--make.log"
_START = "import sys; from cuwheel.entry import main; sys.exit(main())"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_package("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_package("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What stands for a `site-packages` with cuwheel in it."""
    return unpack_installed(wheel, tmp_path_factory.mktemp("site"))


def cuwheel(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the installed cuwheel in a folder, with the packages of this environment."""
    return subprocess.run(
        [sys.executable, "-c", _START, *words],
        cwd=folder,
        env={"PATH": os.defpath, "HOME": str(folder), "PYTHONPATH": str(site), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.e2e
def test_wheel_is_the_same_from_checkout_and_sdist(
    wheel: Path, sdist: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()

    other = build_package("wheel", source, tmp_path / "dist", umask=0o077)

    assert verdict(compare(wheel, other)).startswith("the same bytes: sha256 ")


@pytest.mark.e2e
def test_sdist_is_the_same_at_another_address(sdist: Path, tmp_path: Path) -> None:
    source = copy_sources(tmp_path / "elsewhere")

    other = build_package("sdist", source, tmp_path / "dist", umask=0o077)

    assert other.read_bytes() == sdist.read_bytes()


@pytest.mark.e2e
def test_package_passes_the_checks_of_others(wheel: Path, sdist: Path) -> None:
    strict = [sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)]
    contents = [sys.executable, "-m", "check_wheel_contents", "--config", "pyproject.toml"]

    run(strict, env=dict(os.environ))
    run([*contents, str(wheel)], env=dict(os.environ), cwd=ROOT)


@pytest.mark.e2e
def test_wheel_holds_all_that_runs_and_nothing_else(wheel: Path) -> None:
    tracked = run(
        ["git", "ls-files", "-co", "--exclude-standard", "cuwheel"], env=dict(os.environ), cwd=ROOT
    ).output.split()
    shared = [
        f"cuwheel/{path.relative_to(ROOT)}"
        for path in ROOT.glob("envs/**/*.*")
        if path.parent.name not in {"build", "smoke"}
        and path.stem not in {"clients", "dev", "site"}
    ]

    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert names == {*tracked, *shared, "cuwheel/check/explain/failures.json"}


def test_wheel_holds_the_catalogue_prepared(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("cuwheel/check/explain/failures.json").decode() == prepared()


def test_extras_bring_what_their_commands_import() -> None:
    settings = tomli.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {
        kind: {re.split(r"[>=]", one)[0] for one in requirements}
        for kind, requirements in settings["optional-dependencies"].items()
    }
    imported = {
        kind: {one.replace("_", "-") for one in PACKAGES[kind]} - {"google.protobuf"}
        for kind in named
    }

    assert named == imported


def test_says_its_version(site: Path, tmp_path: Path) -> None:
    assert cuwheel(site, tmp_path, "--version").stdout == f"cuwheel {__version__}\n"


def test_explains_log_anywhere(site: Path, tmp_path: Path) -> None:
    done = cuwheel(site, tmp_path, "explain", str(LOG))

    assert (done.returncode, done.stderr) == (0, "")
    assert "nvcc is not installed" in done.stdout


@pytest.mark.e2e
def test_gives_exit_code_of_the_error(site: Path, tmp_path: Path) -> None:
    done = cuwheel(site, tmp_path, "explain", "gone.log")

    assert done.returncode not in {0, 1}
    assert "error: there is no log gone.log" in done.stderr


@pytest.mark.e2e
def test_writes_commands_as_they_are_typed(site: Path, tmp_path: Path) -> None:
    shown = cuwheel(site, tmp_path, "pick", "--help").stdout
    refused = cuwheel(site, tmp_path, "explain", "--jsn", "x")

    assert "usage: cuwheel pick [-h]" in shown
    assert "nox" not in shown + refused.stderr
    assert refused.returncode == UsageError.exit_code
    assert "--help shows every option" in refused.stderr


@pytest.mark.parametrize("command", ["build", "lock", "matrix", "new", "smoke"])
def test_says_that_there_is_no_project(site: Path, tmp_path: Path, command: str) -> None:
    done = cuwheel(site, tmp_path, command, "x-130")

    assert done.returncode == UsageError.exit_code
    assert f"error: cuwheel {command} needs a project, and there is none here" in done.stderr
    assert "`cuwheel init`" in done.stderr
    assert not (tmp_path / ".cache").exists()


@pytest.mark.parametrize("command", ["docs", "mirror", "torch-symbols"])
def test_keeps_maintainers_commands_to_the_checkout(
    site: Path, tmp_path: Path, command: str
) -> None:
    done = cuwheel(site, tmp_path, command)

    assert done.returncode == UsageError.exit_code
    assert "clone the repository" in done.stderr


def test_helps_with_commands_and_targets(site: Path, tmp_path: Path) -> None:
    outside = cuwheel(site, tmp_path).stdout
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "tiny_capi.py").write_bytes(
        (ROOT / "tests" / "project" / "recipes" / "tiny_capi.py").read_bytes()
    )
    (tmp_path / "deep").mkdir()
    cuwheel(site, tmp_path / "deep", "trust", "..")

    inside = cuwheel(site, tmp_path / "deep", "--help").stdout

    assert "There is no project here: `cuwheel init` makes one" in outside
    assert "explain " in outside
    assert "tiny-capi-130  Build the wheel of tiny-capi 1.0.0 for CUDA 13.0." in inside
