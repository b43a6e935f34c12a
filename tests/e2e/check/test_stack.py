"""A stack from two indexes over HTTP: locked, installed by real pip and uv, and imported."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.regular_files import read_toml
from tests.support.check.stacks import WheelIndex
from tests.support.documents import read_document
from tests.support.factories import write_wheel
from tests.support.publish.installations import pip_environment, uv_environment, versions
from tests.support.servers.http import Site, serving
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e
PYTHON = f"cp3{sys.version_info.minor}"
RELEASE = f"3.{sys.version_info.minor}"
MACHINE = f"python={RELEASE},arch=90,glibc=2.36,driver=580.95.05,platform=x86_64"
FOREVER = "public, max-age=31536000, immutable"  # uv unpacks such a wheel once
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
    return subprocess.run(
        [sys.executable, "-m", "cuwheel", *words],
        env=environ_of(index, folder),
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )


def environ_of(index: WheelIndex, folder: Path) -> dict[str, str]:
    others = {name: value for name, value in os.environ.items() if "INDEX" not in name}
    return {
        **others,
        "CUWHEEL_CACHE": str(folder / "cache"),
        "CUWHEEL_INVOKED_FROM": str(folder),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": "",
        "UV_NO_CONFIG": "1",
        "UV_DEFAULT_INDEX": index.url,
        "CUWHEEL_INDEXES": index.site.url("/more/"),
    }


def sync(command: list[str | Path]) -> int:
    """Run an installer that sees no settings of this machine; return its status."""
    return subprocess.run(command, env=closed(), check=False).returncode


def closed() -> dict[str, str]:
    return {**os.environ, "PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", "NO_PROXY": "*"}


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


def add_for_arm(index: WheelIndex) -> str:
    """Offer what an aarch64 machine needs; return the platform and Python of its wheels."""
    tag = f"{PYTHON}-{PYTHON}-manylinux_2_28_aarch64"
    for torch in ("2.12.0", "2.11.0"):
        index.add("torch", torch, tag=tag)
    index.add("fast", "1.1+cu130torch2.11", "torch", "plain<2", tag=tag)
    return tag


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_lock_is_for_several_platforms(installer: str, index: WheelIndex, tmp_path: Path) -> None:
    tag = add_for_arm(index)
    index.add("slow-attn", "0.9", "torch==2.11.*", tag=tag, at="/more")
    machines = ("--for", MACHINE, "--for", MACHINE.replace("x86_64", "aarch64"))

    done = cuwheel(index, tmp_path, "pick", *PACKAGES, *machines, "--lock", "pylock.toml")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "also        aarch64, with the same Python, torch and CUDA" in done.stdout
    lock, locked = tmp_path / "pylock.toml", read_toml(tmp_path / "pylock.toml")
    assert len(locked["environments"]) == 2
    assert [package["name"] for package in locked["packages"] if "marker" not in package] == [
        "plain"
    ]
    if installer == "pip":
        here = pip_environment(tmp_path / "pip")
        pip = (here / "bin" / "python", "-m", "pip", "install", "--no-cache-dir")
        assert sync([*pip, "-r", lock]) == 0
        assert versions(here, "fast") == ["1.0+cu130torch2.11"]
        return
    uv = (Path(sys.executable).with_name("uv"), "pip", "sync", "--no-cache", lock)
    for platform, version in (("x86_64", "1.0"), ("aarch64", "1.1")):
        folder = tmp_path / platform
        place = ("--target", folder, "--python-platform", f"{platform}-manylinux_2_28")
        assert sync([*uv, *place, "--python", sys.executable]) == 0
        [fast] = folder.glob("fast-*.dist-info")
        assert fast.name == f"fast-{version}+cu130torch2.11.dist-info"


def test_lock_names_what_another_platform_lacks(index: WheelIndex, tmp_path: Path) -> None:
    add_for_arm(index)
    machines = ("--for", MACHINE, "--for", MACHINE.replace("x86_64", "aarch64"))

    done = cuwheel(index, tmp_path, "pick", *PACKAGES, *machines, "--lock", "pylock.toml")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "on aarch64: slow-attn: no index has a wheel for" in " ".join(done.stdout.split())
    assert not (tmp_path / "pylock.toml").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (MACHINE, "a lock can't be for these machines together"),
        ("python=3.9,platform=aarch64", "a lock can't be for these machines together"),
        ("", "--for is given more than once"),
    ],
)
def test_refuses_machines_that_no_lock_is_for(
    more: str, message: str, index: WheelIndex, tmp_path: Path
) -> None:
    lock = ("--lock", "pylock.toml") if more else ()
    machines = ("--for", MACHINE, "--for", more or "python=3.12,platform=aarch64")

    done = cuwheel(index, tmp_path, "pick", *PACKAGES, *machines, *lock)

    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr


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
    activates, adds_pip = re.findall("`(.+?)`", done.stderr)[-2:]
    script = f"{activates} && {adds_pip} && pip3 --version"
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, env=closed(), check=True)
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


def locked(folder: Path) -> dict[str, str]:
    """Return the version of each package in the lock."""
    packages = read_toml(folder / "pylock.toml")["packages"]
    return {package["name"]: package["version"] for package in packages}


@pytest.mark.parametrize("place", ["index", "folder", "line"])
def test_own_wheels_win_over_newer_public_ones(
    index: WheelIndex, tmp_path: Path, place: str
) -> None:
    """Also those of packages without a framework, and of what they require."""
    for name, requires in (("inner", ()), ("needed", ("inner",))):
        index.add(name, "1.0", *requires, tag="py3-none-any", at="/own")
        index.add(name, "99.0", tag="py3-none-any")
    words = ["needed", "plain", "--index", index.site.url("/own/"), "--index", index.url]
    if place == "folder":
        own = tmp_path / "own"
        own.mkdir()
        for wheel in (tmp_path / "wheels").glob("*-1.0-py3-none-any.whl"):
            (own / wheel.name).write_bytes(wheel.read_bytes())
        words = ["needed", "plain", "--index", str(own)]
    if place == "line":
        lines = f"--extra-index-url {index.site.url('/own/')}\nneeded<2\nplain\n"
        (tmp_path / "requirements.txt").write_text(lines)
        words = ["requirements.txt"]
    if place == "index":
        words[:2] = ["needed<2", "plain"]

    done = cuwheel(index, tmp_path, "pick", *words, "--for", MACHINE, "--lock", "pylock.toml")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "needed-1.0" in done.stdout
    assert locked(tmp_path) == {
        "inner": "1.0",
        "needed": "1.0",
        "plain": "1.0" if place == "folder" else "2.0",
    }


def test_constraint_cannot_take_the_place_of_indexes(index: WheelIndex, tmp_path: Path) -> None:
    index.add("plain", "3.0", tag="py3-none-any", at="/other")
    address = index.site.url("/files/plain-3.0-py3-none-any.whl")
    (tmp_path / "limits.txt").write_text(f"plain @ {address}\n")
    (tmp_path / "requirements.txt").write_text("-c limits.txt\nplain\n")

    done = cuwheel(index, tmp_path, "pick", "-r", "requirements.txt", "--for", MACHINE)

    assert done.returncode == 2
    assert "limits.txt" in done.stderr
    assert "plain" in done.stderr


def test_own_index_without_answer_is_not_passed_over(index: WheelIndex, tmp_path: Path) -> None:
    index.add("inner", "99.0", tag="py3-none-any")
    index.add("needed", "1.0", "inner", tag="py3-none-any")
    words = ("requirements.txt", "--for", MACHINE, "--lock", "pylock.toml")
    with serving(Site(password="Basic eA==")) as private:
        line = f"--extra-index-url {private.url('/simple/')}\nneeded\nplain\n"
        (tmp_path / "requirements.txt").write_text(line)
        done = cuwheel(index, tmp_path, "pick", *words)

    assert done.returncode == 30
    assert not (tmp_path / "pylock.toml").exists()
    assert private.url("/simple/") in done.stderr
    assert "401" in done.stderr


def test_report_has_wheels_of_lock(index: WheelIndex, tmp_path: Path) -> None:
    words = ("plain", "fast", "--for", MACHINE, "--lock", "pylock.toml")

    done = cuwheel(index, tmp_path, "pick", *words)

    assert done.returncode == 0, done.stdout + done.stderr
    assert locked(tmp_path)["plain"] == "1.0"
    assert "plain-1.0-py3-none-any.whl" in done.stdout


def make(index: WheelIndex, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return cuwheel(index, folder, "get", *words, "--python", sys.executable)


def test_get_runs_no_package_outside_of_sandbox(index: WheelIndex, tmp_path: Path) -> None:
    """Python runs a `.pth` of a package at each start."""
    mark = tmp_path / "ran"
    code = f"import os; open({str(mark)!r}, 'w').close()\n".encode()
    files: dict[str, bytes | Path] = {"sly.py": b"", "sly.pth": code}
    tag = "py3-none-any"
    wheel = write_wheel(tmp_path / "wheels", files, name="sly", version="1.0", tag=tag)
    index.list_file("/simple/sly/", wheel)

    done = make(index, tmp_path, "sly", "plain")

    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob(".venv/lib/python3*/site-packages/sly.pth"))
    assert not mark.exists()


def test_environments_of_get_share_no_file(index: WheelIndex, tmp_path: Path) -> None:
    index.site.headers["Cache-Control"] = FOREVER
    assert make(index, tmp_path, "plain", "--to", "first").returncode == 0
    [module] = tmp_path.glob("first/lib/python3*/site-packages/plain.py")
    module.write_text("raise ImportError\n")

    done = make(index, tmp_path, "plain", "--to", "second")

    assert done.returncode == 0, done.stderr


def test_get_downloads_anew_what_is_damaged_in_cache(index: WheelIndex, tmp_path: Path) -> None:
    index.site.headers["Cache-Control"] = FOREVER
    assert make(index, tmp_path, "plain", "--to", "first").returncode == 0
    [module] = (tmp_path / "cache" / "uv").rglob("plain.py")
    module.write_text("raise ImportError\n")
    module.with_name("sly.pth").write_text("import plain\n")

    done = make(index, tmp_path, "plain", "--to", "second")

    assert done.returncode == 0, done.stderr
    assert "files of plain differ from RECORD" in " ".join(done.stderr.split())
    assert not list(tmp_path.glob("second/lib/python3*/site-packages/sly.pth"))


def interrupted(index: WheelIndex, folder: Path, mark: str) -> tuple[int, str]:
    """Start a `get` of a package with an endless import, and interrupt it as Ctrl-C does."""
    index.add("slow", "1.0", tag="py3-none-any", content=b"import time; time.sleep(300)\n")
    argv = [sys.executable, "-m", "cuwheel", "get", "slow", "--python", sys.executable]
    with subprocess.Popen(
        argv,
        env=environ_of(index, folder),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        wait_for(lambda: any(folder.glob(mark)))
        time.sleep(1)  # the import has begun
        process.send_signal(signal.SIGINT)
        return process.wait(60), process.stderr.read() if process.stderr else ""


def test_interrupt_during_import_leaves_nothing(index: WheelIndex, tmp_path: Path) -> None:
    status, text = interrupted(index, tmp_path, ".venv/lib/python3*/site-packages/slow.py")

    assert status == 130
    assert "no partial files are left" in text
    assert not (tmp_path / ".venv").exists()
