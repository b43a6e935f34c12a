"""A stack from two indexes over HTTP: locked, installed by real pip and uv, and imported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from tests.support.check.stacks import WheelIndex
from tests.support.documents import read_document
from tests.support.publish.installations import pip_environment, uv_environment, versions
from tests.support.servers.http import Site, serving

pytestmark = pytest.mark.e2e
PYTHON = f"cp3{sys.version_info.minor}"
RELEASE = f"3.{sys.version_info.minor}"
MACHINE = f"python={RELEASE},arch=90,glibc=2.36,driver=580.95.05,platform=x86_64"
PACKAGES = ("fast", "slow-attn")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WheelIndex]:
    """Two indexes: one with PyTorch and what others require, one as a known source."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Site()) as site:
        index = WheelIndex(folder=tmp_path / "wheels", site=site)
        index.add_torch("2.12.0", "2.11.0", pythons=(PYTHON,))
        index.add("plain", "1.0", tag="py3-none-any")
        index.add("plain", "2.0", tag="py3-none-any")
        index.add("fast", "1.0+cu130torch2.11", "torch", "plain<2", python=PYTHON)
        index.add("fast", "1.0+cu130torch2.12", "torch", "plain<2", python=PYTHON)
        index.add("slow-attn", "0.9", "torch==2.11.*", python=PYTHON, at="/more")
        yield index


def cuwheel(index: WheelIndex, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    others = {name: value for name, value in os.environ.items() if "INDEX" not in name}
    environ = {
        **others,
        "CUWHEEL_CACHE": str(folder / "cache"),
        "CUWHEEL_INVOKED_FROM": str(folder),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": "",
        "UV_NO_CONFIG": "1",
        "UV_DEFAULT_INDEX": index.url,
        "CUWHEEL_INDEXES": index.site.url("/more/"),
    }
    return subprocess.run(
        [sys.executable, "-m", "cuwheel", *words],
        env=environ,
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )


def sync(command: list[str | Path]) -> int:
    """Run an installer that sees no settings of this machine; return its status."""
    closed = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", "NO_PROXY": "*"}
    return subprocess.run(command, env=closed, check=False).returncode


def test_lock_is_what_pip_and_uv_install(index: WheelIndex, tmp_path: Path) -> None:
    done = cuwheel(index, tmp_path, "pick", *PACKAGES, "--for", MACHINE, "--lock", "pylock.toml")

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"stack       Python {RELEASE}, torch 2.11.0, CUDA 13.0" in done.stdout
    lock = tmp_path / "pylock.toml"
    assert "127.0.0.1" not in lock.read_text().replace(index.site.url("/files/"), "")
    by_pip, by_uv = pip_environment(tmp_path / "pip"), uv_environment(tmp_path / "uv")
    pip: list[str | Path] = [by_pip / "bin" / "python", "-m", "pip", "install", "--no-cache-dir"]
    uv: list[str | Path] = [Path(sys.executable).with_name("uv"), "pip", "sync", "--no-cache"]
    assert sync([*pip, "-r", lock]) == 0
    assert sync([*uv, lock, "--python", by_uv / "bin" / "python"]) == 0
    for environment in (by_pip, by_uv):
        assert versions(environment, "fast") == ["1.0+cu130torch2.11"]
        assert versions(environment, "slow_attn") == ["0.9"]
        assert versions(environment, "plain") == ["1.0"]
        assert versions(environment, "torch") == ["2.11.0"]

    name = "/files/plain-1.0-py3-none-any.whl"
    index.site.files[name] = index.site.files["/files/plain-2.0-py3-none-any.whl"]
    assert sync([*pip, "--force-reinstall", "-r", lock]) != 0
    assert sync([*uv, "--reinstall", lock, "--python", by_uv / "bin" / "python"]) != 0


def test_constraints_of_a_file_limit_what_uv_chooses(index: WheelIndex, tmp_path: Path) -> None:
    (tmp_path / "limits.txt").write_text("torch<2.12\n")
    (tmp_path / "wanted.txt").write_text("fast\n-c limits.txt\n")

    done = cuwheel(index, tmp_path, "pick", "wanted.txt", "--for", MACHINE, "--lock", "pylock.toml")

    assert done.returncode == 0, done.stdout + done.stderr
    assert 'version = "2.11.0"' in (tmp_path / "pylock.toml").read_text()


@pytest.mark.parametrize("address", ["http://[::1", "http://host.invalid:port/"])
def test_names_malformed_address_on_the_command_line(
    address: str, index: WheelIndex, tmp_path: Path
) -> None:
    done = cuwheel(index, tmp_path, "pick", "fast", "--for", MACHINE, "--index", address)

    assert done.returncode == 2, done.stdout + done.stderr
    assert f"--index is {address}, which is not a URL" in done.stderr


def test_get_makes_environment_and_imports(index: WheelIndex, tmp_path: Path) -> None:
    done = cuwheel(index, tmp_path, "get", *PACKAGES, "--python", sys.executable, "--json")

    assert done.returncode == 0, done.stdout + done.stderr
    data = read_document(done.stdout.splitlines()[-1], "get")
    assert [proof["imported"] for proof in data["proofs"]] == [["fast"], ["slow_attn"]]
    assert data["stack"]["stack"]["torch"] == "2.11.0"
    assert versions(tmp_path / ".venv", "slow_attn") == ["0.9"]
    assert (tmp_path / ".venv" / "pylock.toml").is_file()


def test_get_reports_package_that_cannot_be_imported(index: WheelIndex, tmp_path: Path) -> None:
    broken = b"raise ImportError('undefined symbol: toy')\n"
    index.add("broken", "1.0", "torch==2.11.*", python=PYTHON, content=broken)

    done = cuwheel(index, tmp_path, "get", "broken", "--python", sys.executable, "--to", "env")

    assert done.returncode == 90, done.stderr
    assert "broken can't be imported" in done.stderr
    assert "undefined symbol: toy" in done.stderr
