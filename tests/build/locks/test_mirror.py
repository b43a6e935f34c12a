"""Mirrors of small projects, made from an index and a channel that are folders."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest

from cuwheel.base.errors import (
    DownloadError,
    FileAccessError,
    HashMismatchError,
    LockError,
    SourceError,
    UsageError,
)
from cuwheel.base.fetch.urls import MIRROR_VARIABLE
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.folders.output_folder import MARKER
from cuwheel.build.environments.wheel_selection import is_fitting
from cuwheel.build.inputs.archives import unpack_archive
from cuwheel.build.inputs.pinned import fetch_pinned, open_pinned
from cuwheel.build.locks.lock_jobs import LockSpec
from cuwheel.build.locks.mirror import MirrorSummary, mirror
from cuwheel.build.locks.mirror_folder import read_targets
from cuwheel.build.locks.resolve import resolve_locks
from cuwheel.build.pipeline.stages.source import source as stage_source
from cuwheel.build.recipe.platform import AARCH64
from cuwheel.build.recipe.recipe import Smoke
from cuwheel.build.recipe.source import Archive, Folder, GitCommit, Resource
from cuwheel.build.recipe.target import Target
from cuwheel.build.toolchains.conda.lock_file import CondaLock, CondaPackage
from cuwheel.build.toolchains.conda.mirrors import MIRRORS_VARIABLE
from cuwheel.build.toolchains.debian.archives import ARCHIVES_VARIABLE
from cuwheel.build.toolchains.debian.lock_file import render_debian_lock
from cuwheel.build.wheelhouse.folder_index import write_index
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import (
    commit_all,
    heard,
    make_job,
    make_target,
    make_workspace,
    write_wheel,
)
from tests.support.servers.http import Site, serving
from tests.support.toolchains.channel import toy_packages, write_channel, write_lock
from tests.support.toolchains.debian_archive import Toy, write_pool
from tests.support.toolchains.redist_archives import OWN, toy_parts, write_input, write_release

ANY = "py3-none-any"
_MACHINES = ("x86_64", "aarch64")


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project of small locks, their index, a source, and the folder of its mirror."""

    root: Path
    index: Path
    folder: Path
    workspace: Workspace

    @property
    def source(self) -> Path:
        return self.root / "tiny.tar.gz"

    def add(self, lock: str, *wheels: Path, markers: str = "") -> None:
        """Put wheels of one release into a lock; they lie on the index."""
        path = self.root / "envs" / lock
        path.parent.mkdir(parents=True, exist_ok=True)
        name = wheels[0].name.split("-")[0].replace("_", "-")
        hashes = "".join(f" --hash=sha256:{sha256_of_file(wheel)}" for wheel in wheels)
        with path.open("a") as stream:
            stream.write(f"{name}==1.0{markers}{hashes}\n")

    def wheel(self, name: str, tag: str = ANY) -> Path:
        """Another one each time."""
        there = len(list(self.index.glob("*.whl")))
        files = {f"{name}.py": f"{name} {there}".encode()}
        return write_wheel(self.index, files, name=name, version="1.0", tag=tag)

    def mirror(self, *targets: Target, source: Path | None = None) -> MirrorSummary:
        """Write the index, then the mirror of these targets, or of the project's own."""
        write_index(self.index)
        return mirror(targets or [self.target()], self.folder, self.workspace, source=source)

    def target(self, **changes: object) -> Target:
        defaults = {
            "root": self.root,
            "source": Archive(url=self.source.as_uri(), sha256=sha256_of_file(self.source)),
            "smoke": Smoke(imports=("tiny_cuda",), requires=("numpy",)),
        }
        return make_target(**{**defaults, **changes})  # type: ignore[arg-type]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(
        root=tmp_path / "project",
        index=tmp_path / "index",
        folder=tmp_path / "mirror",
        workspace=make_workspace(tmp_path),
    )
    made.add("engine.lock", made.wheel("engine"))
    made.add("nox.lock", made.wheel("nox"))
    made.add("nox.lock", made.wheel("colorlog"))
    made.add("perf.lock", made.wheel("pynvml"))
    made.add("dev.lock", made.wheel("tool"))
    made.add("build/tiny_cuda.lock", made.wheel("setuptools"))
    made.add("smoke/tiny_cuda.lock", made.wheel("numpy"))
    made.add("cuda130/pypi.lock", made.wheel("nvcc", "py3-none-manylinux_2_17_x86_64"))
    with tarfile.open(made.source, "w:gz") as archive:
        archive.add(__file__, "tiny-1.2.3/setup.py")
    (made.root / "noxfile.py").write_text("# the project itself\n")
    monkeypatch.setattr("cuwheel.build.locks.mirror.ROOT", made.root)
    monkeypatch.setattr("cuwheel.build.locks.mirror_folder.ROOT", made.root)
    monkeypatch.setenv("CUWHEEL_PROJECT", str(made.root))
    monkeypatch.setenv("UV_DEFAULT_INDEX", (made.index / "simple").as_uri())
    return made


def wheels(folder: Path) -> set[str]:
    return {path.name.split("-")[0] for path in folder.glob("downloads/*/*.whl")}


def whole_downloads(folder: Path) -> set[str]:
    """Return names of the files with the hash of their folder."""
    files = [path for path in folder.glob("downloads/[!.]*/*") if path.is_file()]
    return {path.name for path in files if sha256_of_file(path) == path.parent.name}


def test_holds_wheels_of_every_lock_and_nox(project: Project) -> None:
    project.mirror()

    assert wheels(project.folder) == {
        *("engine", "nox", "colorlog", "pynvml", "setuptools", "numpy", "nvcc"),
    }


def test_links_its_wheels(project: Project) -> None:
    project.add("build/tiny_cuda.lock", project.wheel("local", "py3-none-linux_x86_64"))

    made = project.mirror()

    links = re.findall(r'href="(.+)#sha256=(.+)"', (made.folder / "wheels.html").read_text())
    paths = {project.folder / unquote(href): digest for href, digest in links}
    assert paths == {path: path.parent.name for path in project.folder.glob("downloads/*/*.whl")}
    assert len(paths) == 8


def test_holds_source_under_its_hash(project: Project) -> None:
    project.mirror()

    names = project.folder / "downloads" / sha256_of_file(project.source) / "tiny.tar.gz"
    assert names.read_bytes() == project.source.read_bytes()


def test_holds_resources(project: Project) -> None:
    extra = project.root / "extra.cmake"
    extra.write_text("# a resource\n")
    declared = Archive(url=extra.as_uri(), sha256=sha256_of_file(extra))
    resource = Resource(name="extra", source=declared, to="extra.cmake", why="test", unpack=False)

    project.mirror(project.target(resources=(resource,)))

    assert (project.folder / "downloads" / declared.sha256 / "extra.cmake").is_file()


def test_holds_project_itself(project: Project) -> None:
    (project.root / "envs" / "tool.sh").touch(0o755)

    project.mirror()

    assert (project.folder / "cuwheel" / "noxfile.py").is_file()
    assert (project.folder / "cuwheel" / "envs" / "tool.sh").stat().st_mode & 0o777 == 0o755
    assert (project.folder / "cuwheel" / "envs" / "cuda130" / "pypi.lock").is_file()
    assert "CUWHEEL_TARGET_ROOT" not in (project.folder / "README.txt").read_text()


def test_copies_no_fifo_of_project(project: Project) -> None:
    (project.root / "recipes").mkdir(exist_ok=True)
    os.mkfifo(project.root / "recipes" / "pipe.py")

    with pytest.raises(shutil.Error, match="it is not a regular file"):
        project.mirror()


def test_holds_recipes_from_outside(project: Project, tmp_path: Path) -> None:
    shutil.copytree(project.root / "envs", tmp_path / "ours" / "envs")

    project.mirror(project.target(root=tmp_path / "ours"))

    assert (project.folder / "projects" / "ours" / "envs" / "build" / "tiny_cuda.lock").is_file()
    assert "CUWHEEL_PROJECT=$PWD/projects/ours" in (project.folder / "README.txt").read_text()


@pytest.fixture
def local(project: Project) -> Target:
    """A target with a folder of the project as its source, committed years ago."""
    package = project.root / "samples" / "tiny"
    package.mkdir(parents=True)
    (package / "setup.py").write_text("# the source\n")
    (project.root / "recipes").mkdir()
    (project.root / "recipes" / "tiny_cuda.py").write_text(
        "from cuwheel import *\n"
        "RECIPE = Recipe(name='tiny-cuda', version='1', license='MIT', homepage='',"
        " maintainers=('me',), source=Folder(path='samples/tiny'), toolkits=('13.0',),"
        " archs=('90',), requires=('setuptools',), build=Setuptools(), link=Link('cudart'),"
        " smoke=Smoke(imports=('tiny_cuda',)))\n"
    )
    commit_all(project.root, GIT_COMMITTER_DATE="1600000000 +0000")
    return project.target(source=Folder(path="samples/tiny"))


def test_folder_of_project_is_the_same_in_mirror(project: Project, local: Target) -> None:
    project.mirror(local)

    copied = dataclasses.replace(local, root=project.folder / "cuwheel")
    there, here = (stage_source(make_job(each, project.workspace)) for each in (copied, local))
    assert (there.sha256, there.epoch) == (here.sha256, here.epoch)


def test_keeps_folder_for_target_of_run_before(project: Project, local: Target) -> None:
    project.mirror(local)

    project.mirror()

    assert (project.folder / "cuwheel" / "samples" / "tiny" / "setup.py").is_file()


def test_refuses_missing_folder_of_project(project: Project) -> None:
    target = project.target(source=Folder(path="samples/lost"))

    with pytest.raises(SourceError, match="samples/lost"):
        project.mirror(target)

    assert not project.folder.exists()


def test_refuses_file_as_source_that_is_in_the_project(project: Project, local: Target) -> None:
    with pytest.raises(UsageError, match="can't be the source of tiny-cuda"):
        project.mirror(local, source=project.source)


def test_every_download_has_the_hash_of_its_folder(project: Project) -> None:
    made = project.mirror()

    files = list(project.folder.glob("downloads/[!.]*/*"))
    assert whole_downloads(project.folder) == {path.name for path in files}
    assert (made.files, made.size) == (len(files), sum(path.stat().st_size for path in files))


def test_second_target_joins_the_first(project: Project) -> None:
    project.mirror()
    project.add("build/other.lock", project.wheel("meson"))
    project.add("smoke/other.lock", project.wheel("scipy"))

    project.mirror(project.target(name="other"))

    assert set(read_targets(project.folder)) == {"tiny-cuda-130", "other-130"}
    assert "build-other-130 -- --offline" in (project.folder / "README.txt").read_text()
    assert {"meson", "setuptools"} <= wheels(project.folder)


def test_second_python_joins_the_first(project: Project) -> None:
    project.mirror()

    project.mirror(project.target(python="3.12"))

    assert read_targets(project.folder)["tiny-cuda-130"].pythons == ("3.11", "3.12")


def test_takes_wheels_of_each_python_that_is_requested(project: Project) -> None:
    tags = [f"cp3{minor}-cp3{minor}-manylinux_2_28_x86_64" for minor in (10, 11, 12)]
    project.add("build/tiny_cuda.lock", *(project.wheel("numpy_core", tag) for tag in tags))

    project.mirror(
        *(project.target(python=release) for release in ("3.11", "3.12")),
    )

    names = sorted(path.name for path in project.folder.glob("downloads/*/numpy_core*.whl"))
    assert [name.split("-")[2] for name in names] == ["cp311", "cp312"]


def test_takes_nox_for_each_python_that_runs_it(project: Project) -> None:
    """A wheel of the stable ABI is built with an older one than requested."""
    tags = [f"cp3{minor}-cp3{minor}-manylinux_2_28_x86_64" for minor in (11, 12, 13)]
    project.add("nox.lock", *(project.wheel("nox_core", tag) for tag in tags))
    write_index(project.index)

    mirror([project.target(python="3.11")], project.folder, project.workspace, pythons=("3.12",))

    names = sorted(path.name for path in project.folder.glob("downloads/*/nox_core*.whl"))
    assert [name.split("-")[2] for name in names] == ["cp311", "cp312"]


def test_leaves_out_what_markers_exclude(project: Project) -> None:
    project.add(
        "build/tiny_cuda.lock", project.wheel("tomli"), markers=" ; python_version < '3.11'"
    )

    project.mirror()

    assert "tomli" not in wheels(project.folder)


@pytest.mark.parametrize(
    ("tag", "python", "machine", "fits"),
    [
        ("py3-none-any", "3.12", "x86_64", True),
        ("py2.py3-none-any", "3.12", "x86_64", True),
        ("cp312-cp312-manylinux_2_28_x86_64", "3.12", "x86_64", True),
        ("cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64", "3.12", "x86_64", True),
        ("cp39-abi3-manylinux_2_34_x86_64", "3.12", "x86_64", True),
        ("cp313-abi3-manylinux_2_34_x86_64", "3.12", "x86_64", False),
        ("cp311-cp311-manylinux_2_28_x86_64", "3.12", "x86_64", False),
        ("cp312-cp312t-manylinux_2_28_x86_64", "3.12", "x86_64", False),
        ("cp312-cp312-musllinux_1_2_x86_64", "3.12", "x86_64", False),
        ("cp312-cp312-manylinux_2_28_aarch64", "3.12", "x86_64", False),
        ("cp312-cp312-win_amd64", "3.12", "x86_64", False),
        ("py3-none-any", "3.14t", "x86_64", True),
        ("cp314-cp314t-manylinux_2_28_x86_64", "3.14t", "x86_64", True),
        ("cp314-cp314-manylinux_2_28_x86_64", "3.14t", "x86_64", False),
        ("cp39-abi3-manylinux_2_34_x86_64", "3.14t", "x86_64", False),
        ("py3-none-any", "3.12", "aarch64", True),
        ("cp312-cp312-manylinux_2_28_aarch64", "3.12", "aarch64", True),
        ("cp39-abi3-manylinux_2_34_x86_64", "3.12", "aarch64", False),
    ],
)
def test_knows_which_wheels_fit(tag: str, python: str, machine: str, *, fits: bool) -> None:
    assert is_fitting(f"toy-1.0-{tag}.whl", python, machine) is fits


@pytest.fixture
def foreign(project: Project) -> Target:
    """A target for another machine; each lock but one has wheels for both."""
    (project.root / "envs" / "cuda130" / "pypi.lock").unlink()
    for lock, name in (
        ("build/tiny_cuda.lock", "headers"),
        ("smoke/tiny_cuda.lock", "imported"),
        ("cuda130/pypi.lock", "cudart"),
        ("nox.lock", "nox_core"),
    ):
        tags = [f"py3-none-manylinux_2_28_{machine}" for machine in _MACHINES]
        project.add(lock, *(project.wheel(name, tag) for tag in tags))
    return project.target(platform=AARCH64)


def test_holds_for_another_machine_what_runs_here_too(project: Project, foreign: Target) -> None:
    project.add("nox.lock", project.wheel("only_there"), markers=" ; platform_machine == 'aarch64'")

    project.mirror(foreign)

    files = {path.name for path in project.folder.glob("downloads/*/*manylinux*.whl")}
    names = {(name.partition("-")[0], name[:-4].partition("2_28_")[2]) for name in files}
    both = {(name, machine) for name in ("headers", "cudart", "nox_core") for machine in _MACHINES}
    assert names == {*both, ("imported", "aarch64")}
    assert {"only_there", "setuptools", "numpy"} <= wheels(project.folder)


def test_names_command_for_another_machine(project: Project, foreign: Target) -> None:
    made = project.mirror(foreign)

    assert made.targets["tiny-cuda-130 for linux_aarch64"].command == (
        "nox -s build-tiny-cuda-130 -- --offline --platform linux_aarch64 --python 3.11"
    )
    readme = (project.folder / "README.txt").read_text()
    assert "export CUWHEEL_TARGET_ROOT=/path/to/root" in readme
    assert "a cross compiler and QEMU" in readme


def test_names_what_has_no_wheel_for_another_machine(project: Project, foreign: Target) -> None:
    project.add("cuda130/pypi.lock", project.wheel("nvcc", "py3-none-manylinux_2_17_x86_64"))

    with pytest.raises(LockError) as caught:
        project.mirror(foreign)

    assert caught.value.why == "pypi.lock: nvcc==1.0 has none for Python 3.11 on aarch64"


def test_names_packages_without_fitting_wheel(project: Project) -> None:
    project.add("build/tiny_cuda.lock", project.wheel("old", "cp310-cp310-manylinux_2_17_x86_64"))
    project.add("smoke/tiny_cuda.lock", project.wheel("new", "cp313-cp313-manylinux_2_17_x86_64"))

    with pytest.raises(LockError) as caught:
        project.mirror()

    assert "old==1.0 has none for Python 3.11" in caught.value.why
    assert "new==1.0 has none for Python 3.11" in caught.value.why


def test_takes_nothing_with_unlocked_hash(project: Project) -> None:
    project.wheel("setuptools")  # another one in its place

    with pytest.raises(LockError, match="no matching wheel"):
        project.mirror()


@pytest.fixture
def channel(project: Project, tmp_path: Path) -> Path:
    """A channel with two small packages, and a lock that names them."""
    folder = write_channel(tmp_path / "conda-forge", toy_packages())
    packages = tuple(
        CondaPackage(
            name=package.name,
            version=package.version,
            build=package.build,
            url=f"https://conda.invalid/conda-forge/{package.subdir}/{package.stem}.conda",
            sha256=sha256_of_file(folder / package.subdir / f"{package.stem}.conda"),
            md5="",
            size=(folder / package.subdir / f"{package.stem}.conda").stat().st_size,
        )
        for package in toy_packages()
    )
    lock = CondaLock(packages=packages, channels=("conda-forge",), digest="0" * 64, index="test")
    for name in ("cuda122", "python311"):
        path = project.root / "envs" / name / "conda-lock.yml"
        path.parent.mkdir()
        write_lock(path, lock)
    return folder


def test_holds_packages_of_conda_toolchain_and_python(
    project: Project, channel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MIRRORS_VARIABLE, channel.as_uri())
    target = project.target(toolkit="12.2", toolkits=("12.2",), provider="conda")

    project.mirror(target)

    assert {path.name for path in channel.glob("*/*.conda")} <= whole_downloads(project.folder)
    assert "nvcc" not in wheels(project.folder)


def test_holds_archives_of_redist_toolchain(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "compute"
    write_release(base, toy_parts())
    source = write_input(project.root, toy_parts())
    lock = LockSpec(name="redist", source=source, lock=source.with_name("redist.lock"))
    monkeypatch.setenv("CUWHEEL_REDIST_MIRROR", base.as_uri())
    resolve_locks((lock,), project.workspace)

    project.mirror(project.target(provider="redist"))

    archives = {path.name for path in base.rglob(f"*{OWN}*.tar.xz")}
    held = {name for name in whole_downloads(project.folder) if "archive" in name}
    assert held == archives


def test_holds_packages_of_a_pinned_compiler(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "debian"
    lock = write_pool(archive, Toy(name="gcc"), Toy(name="libc6"))
    path = project.root / "envs" / "gcc10" / "debian.lock"
    path.parent.mkdir()
    path.write_text(render_debian_lock(lock, "nox -s lock"))
    monkeypatch.setenv(ARCHIVES_VARIABLE, archive.as_uri())

    project.mirror(project.target(host_compiler="gcc10"))

    packages = {path.name for path in archive.rglob("*.deb")}
    assert {name for name in whole_downloads(project.folder) if name.endswith(".deb")} == packages
    [target] = read_targets(project.folder).values()
    assert target.command.endswith("-- --offline")


def test_takes_what_another_mirror_holds(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    project.mirror()
    target = project.target()
    project.source.unlink()
    for wheel in project.index.glob("*.whl"):
        wheel.unlink()
    monkeypatch.setenv(MIRROR_VARIABLE, project.folder.as_uri())

    second = mirror([target], tmp_path / "second", project.workspace)

    assert whole_downloads(second.folder) == whole_downloads(project.folder)


def test_goes_on_after_failure(project: Project) -> None:
    write_index(project.index)
    [numpy] = project.index.glob("numpy-*.whl")
    numpy.rename(project.root / numpy.name)
    with pytest.raises(DownloadError):
        mirror([project.target()], project.folder, project.workspace)
    (project.root / numpy.name).rename(numpy)

    mirror([project.target()], project.folder, project.workspace)

    assert "numpy" in wheels(project.folder)


def test_is_no_mirror_yet_when_it_fails(project: Project) -> None:
    write_index(project.index)
    next(project.index.glob("numpy-*.whl")).unlink()

    with pytest.raises(DownloadError, match=r"numpy.*could not be downloaded"):
        mirror([project.target()], project.folder, project.workspace)

    assert {path.name for path in project.folder.iterdir()} == {MARKER, "downloads"}


def test_replaces_damaged_file(project: Project) -> None:
    project.mirror()
    [wheel] = project.folder.glob("downloads/*/nvcc*.whl")
    whole = wheel.read_bytes()
    wheel.write_bytes(whole[:-1] + b"x")

    project.mirror()

    assert wheel.read_bytes() == whole


@pytest.fixture
def kept(project: Project) -> Path:
    """A wheel that the cache holds, and that the index no longer has."""
    [wheel] = project.index.glob("nvcc*.whl")
    write_index(project.index)
    path = project.workspace.cache / "downloads" / sha256_of_file(wheel) / wheel.name
    path.parent.mkdir(parents=True)
    return wheel.rename(path)


def test_shares_disk_space_with_cache(project: Project, kept: Path) -> None:
    mirror([project.target()], project.folder, project.workspace)

    [wheel] = project.folder.glob("downloads/*/nvcc*.whl")
    assert wheel.samefile(kept)


def test_copies_out_of_cache_on_another_disk(project: Project, kept: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        mirror([project.target()], Path(name), project.workspace)

        [wheel] = Path(name).glob("downloads/*/nvcc*.whl")
        assert wheel.read_bytes() == kept.read_bytes()
        assert wheel.stat().st_dev != kept.stat().st_dev


def test_downloads_what_is_damaged_in_cache(project: Project, kept: Path) -> None:
    whole = kept.read_bytes()
    (project.index / kept.name).write_bytes(whole)
    kept.write_bytes(b"damaged")

    mirror([project.target()], project.folder, project.workspace)

    assert (project.folder / "downloads" / kept.parent.name / kept.name).read_bytes() == whole


def test_takes_source_that_cannot_be_downloaded(project: Project) -> None:
    sha256 = sha256_of_file(project.source)
    unreachable = Archive(url="http://127.0.0.1:9/tiny.tar.gz", sha256=sha256)

    project.mirror(project.target(source=unreachable), source=project.source)

    assert (project.folder / "downloads" / sha256 / "tiny.tar.gz").is_file()


@pytest.fixture
def toy(tmp_path: Path) -> GitCommit:
    """A commit of a repository on this machine."""
    folder = tmp_path / "toy"
    folder.mkdir()
    return commit_setup(folder, "# the toy\n")


def commit_setup(folder: Path, text: str) -> GitCommit:
    """Commit a `setup.py` with this text."""
    (folder / "setup.py").write_text(text)
    return GitCommit(repository=folder.as_uri(), commit=commit_all(folder))


def out_of_reach(commit: GitCommit) -> GitCommit:
    """The same commit, of a repository that doesn't answer."""
    return dataclasses.replace(commit, repository="http://127.0.0.1:9/toy")


@pytest.fixture
def mirrored(project: Project, toy: GitCommit, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The commit's pack in a mirror that is in use."""
    project.mirror(project.target(source=toy))
    monkeypatch.setenv(MIRROR_VARIABLE, project.folder.as_uri())
    return project.folder / "downloads" / f"git-{toy.commit}" / f"toy-{toy.commit}.pack"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Workspace:
    """A workspace with another cache."""
    return make_workspace(tmp_path / "elsewhere")


def test_holds_pack_of_commit(mirrored: Path, project: Project, toy: GitCommit) -> None:
    assert mirrored.read_bytes() == fetch_pinned(toy, project.workspace, "").read_bytes()


@pytest.mark.usefixtures("mirrored")
def test_commit_comes_from_mirror_offline(
    toy: GitCommit, elsewhere: Workspace, tmp_path: Path
) -> None:
    with open_pinned(out_of_reach(toy), elsewhere, "", offline=True) as got:
        tree = unpack_archive(got.path, tmp_path / "unpacked").top

    assert (tree / "setup.py").read_text() == "# the toy\n"


def test_commit_comes_from_served_mirror(
    mirrored: Path,
    project: Project,
    toy: GitCommit,
    elsewhere: Workspace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pack = mirrored.read_bytes()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    with serving(Site(files={f"/m/{mirrored.relative_to(project.folder)}": pack})) as site:
        monkeypatch.setenv(MIRROR_VARIABLE, site.url("/m"))
        got = fetch_pinned(out_of_reach(toy), elsewhere, "")

    assert got.read_bytes() == pack


def test_refuses_pack_of_another_commit_in_mirror(
    mirrored: Path, toy: GitCommit, elsewhere: Workspace, tmp_path: Path
) -> None:
    other = fetch_pinned(commit_setup(tmp_path / "toy", "# other\n"), elsewhere, "", offline=True)
    mirrored.write_bytes(other.read_bytes())

    with pytest.raises(DownloadError, match="is not in the cache"):
        fetch_pinned(out_of_reach(toy), elsewhere, "", offline=True)

    assert "is damaged or of another commit" in heard(elsewhere)


def test_takes_commit_from_repository_when_mirror_is_wrong(
    mirrored: Path, toy: GitCommit, elsewhere: Workspace
) -> None:
    good = mirrored.read_bytes()
    mirrored.write_bytes(b"garbage")

    got = fetch_pinned(toy, elsewhere, "", offline=True)

    assert got.read_bytes() == good


def test_refuses_file_as_source_that_is_a_commit(project: Project) -> None:
    commit = GitCommit(repository="http://127.0.0.1:9/toy", commit="1" * 40)

    with pytest.raises(UsageError) as caught:
        project.mirror(project.target(source=commit), source=project.source)

    assert "a git commit" in caught.value.why
    assert not list(project.workspace.cache.rglob("*.pack"))


def test_refuses_source_that_is_not_the_pinned_one(project: Project) -> None:
    target = project.target()
    project.source.write_bytes(b"something else")

    with pytest.raises(HashMismatchError):
        project.mirror(target, source=project.source)

    assert not project.folder.exists()


def test_refuses_one_source_for_two_recipes(project: Project) -> None:
    with pytest.raises(UsageError, match="2 recipes"):
        project.mirror(
            project.target(),
            project.target(name="other"),
            source=project.source,
        )


def test_refuses_foreign_manifest(project: Project) -> None:
    project.mirror()
    (project.folder / "mirror.json").write_text("[]")

    with pytest.raises(FileAccessError, match="is invalid"):
        project.mirror()
