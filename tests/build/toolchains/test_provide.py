"""The toolchain stage with NVIDIA's real wheels, and its errors."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.errors import DownloadError, InstallError, LockError, ToolchainError
from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.process import run
from cuwheel.build.environments.uv import resolve
from cuwheel.build.toolchains.conda.mirrors import MIRRORS_VARIABLE, Mirrors
from cuwheel.build.toolchains.provide import provide_toolchain
from cuwheel.build.workspace.records import Toolchain
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import toolkit_by_release
from tests.support.factories import heard, later, make_workspace
from tests.support.toolchains.channel import write_solved_lock, write_source
from tests.support.toolchains.layouts import write_toolkit
from tests.support.toolchains.small_toolchain import write_small_lock
from tests.support.toolchains.toolchain_channel import toolchain_specs

TOOLKIT = toolkit_by_release("13.0")


@pytest.fixture
def small_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real lock, cut down to what compiling takes: fewer bytes for each test."""
    monkeypatch.setenv("CUWHEEL_PROJECT", str(tmp_path / "project"))
    return write_small_lock(tmp_path / "project")


@pytest.fixture
def private_space(tmp_path: Path) -> Iterator[Workspace]:
    """A cache that shares nothing, for tests that damage it."""
    toolchain = make_workspace(tmp_path)
    yield toolchain
    remove_tree(toolchain.cache)


@pytest.fixture(scope="module")
def module_caches(module_path: Path, shared_cache: Path) -> Iterator[dict[str, Path]]:
    """For each provider a cache of this module's own; pypi's has the downloads of the shared one.

    A test that damages what is in it leaves it repaired.
    """
    caches = {provider: module_path / provider for provider in ("pypi", "conda")}
    caches["pypi"].mkdir()
    (caches["pypi"] / "uv").symlink_to(shared_cache / "uv")
    yield caches
    remove_tree(caches["conda"])


@pytest.fixture
def pypi_workspace(
    module_caches: dict[str, Path],
    tmp_path: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Workspace:
    monkeypatch.setenv("CUWHEEL_PROJECT", str(project))
    return make_workspace(tmp_path, cache=module_caches["pypi"])


@pytest.mark.e2e
def test_makes_home_that_compiles_and_links(pypi_workspace: Workspace, tmp_path: Path) -> None:
    toolchain = provide_toolchain(TOOLKIT, "pypi", pypi_workspace)

    library = _compile(toolchain, tmp_path)

    assert library.read_bytes().startswith(b"\x7fELF")


def test_reuses_what_is_whole(pypi_workspace: Workspace) -> None:
    first = provide_toolchain(TOOLKIT, "pypi", pypi_workspace)
    nvcc = (first.home / "bin" / "nvcc").stat().st_ino

    again = provide_toolchain(TOOLKIT, "pypi", later(pypi_workspace))

    assert (again.home / "bin" / "nvcc").stat().st_ino == nvcc


@pytest.mark.e2e
def test_makes_damaged_one_again(pypi_workspace: Workspace) -> None:
    """Each kind of damage: `test_store`."""
    whole = provide_toolchain(TOOLKIT, "pypi", pypi_workspace)
    _rewrite(whole.home / "include" / "crt" / "host_config.h", "// changed\n")

    repaired = provide_toolchain(TOOLKIT, "pypi", later(pypi_workspace))

    assert "was damaged and is made again" in heard(pypi_workspace)
    assert repaired == whole


@pytest.mark.e2e
@pytest.mark.usefixtures("small_lock")
def test_mends_damage_of_the_installers_cache(private_space: Workspace) -> None:
    whole = provide_toolchain(TOOLKIT, "pypi", private_space)
    for header in private_space.cache.rglob("crt/host_config.h"):
        with header.open("a") as stream:
            stream.write("// changed in place\n")

    repaired = provide_toolchain(TOOLKIT, "pypi", later(private_space))

    assert repaired == whole


@pytest.mark.e2e
def test_refuses_parts_of_several_releases(small_lock: Path, lean_workspace: Workspace) -> None:
    """pip resolves `cuda-toolkit[nvcc]` alone to the newest nvvm."""
    lines = small_lock.read_text().splitlines(keepends=True)
    kept = "".join(line for line in lines if "nvidia-nvvm" not in line)
    small_lock.write_text(kept + _locked("nvidia-nvvm>13.1", lean_workspace))

    with pytest.raises(ToolchainError) as caught:
        provide_toolchain(TOOLKIT, "pypi", lean_workspace)

    assert "nvidia-cuda-nvcc 13.0.88" in caught.value.why


def test_leaves_nothing_of_a_toolchain_that_could_not_be_made(
    small_lock: Path, lean_workspace: Workspace
) -> None:
    lines = small_lock.read_text().splitlines(keepends=True)
    small_lock.write_text("".join(line for line in lines if "nvidia-nvvm" not in line))

    with pytest.raises(InstallError):
        provide_toolchain(TOOLKIT, "pypi", lean_workspace)

    assert [path for path in (lean_workspace.cache / "toolchains").iterdir() if path.is_dir()] == []


def test_conda_provider_reports_what_is_missing(lean_workspace: Workspace) -> None:
    newer = dataclasses.replace(TOOLKIT, release="13.9")

    with pytest.raises(LockError) as caught:
        provide_toolchain(newer, "conda", lean_workspace)

    assert "envs/cuda139/conda-lock.yml" in caught.value.why
    assert "nox -s lock -- toolchain:139" in caught.value.fix


@pytest.fixture
def small_conda_lock(
    tmp_path: Path, conda_channel: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """nvcc, cudart and the compilers of the channel: fewer bytes for each test."""
    needed = re.compile("cuda-(nvcc|cudart-dev|driver-dev_linux-64) |gcc_|gxx_")
    specs = filter(needed.match, toolchain_specs(conda_channel))
    source = write_source(tmp_path / "conda" / "envs" / "cuda130", *specs)
    monkeypatch.setenv("CUWHEEL_PROJECT", str(tmp_path / "conda"))
    monkeypatch.setenv(MIRRORS_VARIABLE, conda_channel.as_uri())
    return write_solved_lock(source, Mirrors.of(os.environ), shared_cache)


@pytest.fixture
def conda_workspace(
    small_conda_lock: Path, module_caches: dict[str, Path], tmp_path: Path
) -> Workspace:
    assert small_conda_lock.is_file()
    return make_workspace(tmp_path, cache=module_caches["conda"])


@pytest.mark.e2e
def test_conda_home_compiles_and_links(conda_workspace: Workspace, tmp_path: Path) -> None:
    toolchain = provide_toolchain(TOOLKIT, "conda", conda_workspace)

    library = _compile(toolchain, tmp_path, f"-ccbin={toolchain.cxx}")

    assert library.read_bytes().startswith(b"\x7fELF")


def test_conda_toolchain_reports_what_it_is(conda_toolchain: Toolchain) -> None:
    """With addresses of the channel, not of the mirror that the files came from."""
    channel = "https://conda.anaconda.org/conda-forge/"

    packages = {name: version for name, version, _, _ in conda_toolchain.packages}
    addresses = [address for _, _, address, _ in conda_toolchain.packages]
    facts = (conda_toolchain.provider, conda_toolchain.version, conda_toolchain.pinned)
    assert facts == ("conda", "13.0.88", True)
    assert packages["conda cuda-nvcc-tools"] == "13.0.88"
    assert [address for address in addresses if not address.startswith(channel)] == []


@pytest.mark.e2e
@pytest.mark.parametrize(
    "damage",
    [
        lambda home: (home / "include" / "cuda_runtime.h").unlink(),
        lambda home: (home / "bin" / "nvcc.profile").write_text("TOP = /\n"),
    ],
    ids=["missing link", "changed in place"],
)
def test_makes_damaged_conda_toolchain_again(
    damage: Callable[[Path], object], conda_workspace: Workspace
) -> None:
    """Changing a file in place changes the unpacked package in the cache too."""
    whole = provide_toolchain(TOOLKIT, "conda", conda_workspace)
    profile = (whole.home / "bin" / "nvcc.profile").read_text()
    damage(whole.home)

    repaired = provide_toolchain(TOOLKIT, "conda", later(conda_workspace))

    assert "was damaged and is made again" in heard(conda_workspace)
    assert repaired == whole
    assert (repaired.home / "bin" / "nvcc.profile").read_text() == profile


@pytest.mark.e2e
def test_reuses_conda_toolchain_without_its_channel(
    conda_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = provide_toolchain(TOOLKIT, "conda", conda_workspace)
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv(MIRRORS_VARIABLE, (tmp_path / "nothing").as_uri())

    assert provide_toolchain(TOOLKIT, "conda", later(conda_workspace)) == first


@pytest.mark.usefixtures("small_conda_lock")
def test_leaves_nothing_when_channel_lacks_a_package(
    private_space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv(MIRRORS_VARIABLE, (tmp_path / "nothing").as_uri())

    with pytest.raises(DownloadError) as caught:
        provide_toolchain(TOOLKIT, "conda", private_space)

    files = [path for path in private_space.cache.rglob("*") if path.is_file()]
    assert [path for path in files if path.stat().st_size] == []
    left = (private_space.cache / "toolchains").glob("*conda*")
    assert not [path for path in left if path.is_dir()]
    assert MIRRORS_VARIABLE in caught.value.fix


def test_refuses_conda_lock_that_was_edited(
    small_conda_lock: Path, private_space: Workspace
) -> None:
    text = small_conda_lock.read_text()
    small_conda_lock.write_text(text.replace("sha256: ", "sha256: 0", 1))

    with pytest.raises(LockError, match=r"edited by hand|is not a valid conda lock"):
        provide_toolchain(TOOLKIT, "conda", private_space)


@pytest.mark.e2e
def test_refuses_conda_toolkit_of_another_release(
    small_conda_lock: Path, conda_workspace: Workspace
) -> None:
    """CUDA 13.0 under the name of 12.2: nvcc's version counts, not the folder's name."""
    other = small_conda_lock.parent.rename(small_conda_lock.parent.with_name("cuda122"))

    with pytest.raises(ToolchainError, match=r"is not CUDA 12\.2") as caught:
        provide_toolchain(toolkit_by_release("12.2"), "conda", conda_workspace)

    assert other.name == "cuda122"
    assert "nvcc 13.0.88" in caught.value.why


@pytest.mark.usefixtures("small_conda_lock")
def test_refuses_conda_toolchain_for_another_machine(
    private_space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")

    with pytest.raises(ToolchainError) as caught:
        provide_toolchain(TOOLKIT, "conda", private_space)

    assert "linux-64, and this machine is aarch64" in caught.value.why


def test_conda_provider_names_archives_for_arm64(
    lean_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")

    with pytest.raises(ToolchainError) as caught:
        provide_toolchain(toolkit_by_release("12.2"), "conda", lean_workspace)

    assert caught.value.fix == "use `--toolchain redist` or `--toolchain system`"


def _with_home(workspace: Workspace, home: Path) -> Workspace:
    return dataclasses.replace(workspace, caller=Caller({"CUDA_HOME": str(home)}))


def test_system_provider_takes_named_toolkit_and_is_unpinned(pypi_workspace: Workspace) -> None:
    home = provide_toolchain(TOOLKIT, "pypi", pypi_workspace).home

    toolchain = provide_toolchain(TOOLKIT, "system", _with_home(pypi_workspace, home))

    assert (toolchain.version, toolchain.pinned) == ("13.0.88", False)


@pytest.mark.parametrize("name", ["bin/ptxas", "nvvm/bin/cicc", "nvvm/libdevice/libdevice.10.bc"])
def test_system_toolkit_is_known_by_all_that_compiles(
    name: str, lean_workspace: Workspace, tmp_path: Path
) -> None:
    home = tmp_path / "cuda"
    write_toolkit(home, "13.0")
    before = provide_toolchain(TOOLKIT, "system", _with_home(lean_workspace, home))

    (home / name).parent.mkdir(parents=True, exist_ok=True)
    with (home / name).open("a") as stream:
        stream.write("# another one\n")

    after = provide_toolchain(TOOLKIT, "system", _with_home(lean_workspace, home))
    assert after.fingerprint != before.fingerprint


@pytest.mark.parametrize("version", ["12.4", ""], ids=["another release", "none"])
def test_system_provider_refuses_what_is_not_the_release(
    version: str, lean_workspace: Workspace, tmp_path: Path
) -> None:
    home = tmp_path / "cuda"
    if version:
        write_toolkit(home, version)

    with pytest.raises(ToolchainError) as caught:
        provide_toolchain(TOOLKIT, "system", _with_home(lean_workspace, home))

    assert (version or str(home)) in caught.value.why


def _locked(requirement: str, lean_workspace: Workspace) -> str:
    source = lean_workspace.cache / "one.in"
    source.write_text(requirement + "\n")
    return resolve(
        source,
        lean_workspace,
        python="3.10",
        uploaded_before="2026-11-14",
    )


def _rewrite(path: Path, text: str) -> None:
    """Replace a file, so that its hard links elsewhere stay as they are."""
    path.unlink()
    path.write_text(text)


def _compile(toolchain: Toolchain, folder: Path, *more: str) -> Path:
    source = folder / "kernel.cu"
    source.write_text(
        "__global__ void add(int *a) { ++*a; }\nvoid f(int *a) { add<<<1, 1>>>(a); }\n"
    )
    library = folder / "kernel.so"
    flags = ["-arch=sm_90", "-shared", "-Xcompiler=-fPIC", "-cudart=shared", *more]
    run(
        [toolchain.home / "bin" / "nvcc", *flags, "-o", library, source],
        env={"PATH": os.defpath},
        cwd=folder,
    )
    return library
