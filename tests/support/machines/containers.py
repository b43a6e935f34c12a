"""podman in a machine that may itself be a container: settings of its own, and small images."""

from __future__ import annotations

import io
import os
import resource
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import CommandFailedError
from cuwheel.base.system.files import file_lock
from cuwheel.base.system.process import run, which
from tests.support.requirements import lack

_PROVES = "that builds run in containers"
_SUITE = "bookworm"
_PACKAGES = "python3,python3-venv,python3-dev,g++,ca-certificates"
_FILES = 1024  # open ones; a container in a container may not raise its limits

# Without systemd, without a network of its own, with the limits that this process has; and what
# podman notes of its own, so that the reset of one is not that of another.
_SETTINGS = """
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc=4096:4096"]
netns = "host"
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "none"
tmp_dir = "{folder}/engine"
"""
_STORAGE = '[storage]\ndriver = "{driver}"\ngraphroot = "{folder}/images"\nrunroot = "{short}"\n'


@dataclass(frozen=True, kw_only=True)
class Podman:
    """podman with images of its own.

    Attributes:
        variables: with which every podman has the same images.
        run_folder: for what holds while they run. A path of more than 50 characters costs 20 s at
            the end of each container (podman 4.3), so it isn't below the others.
    """

    variables: dict[str, str]
    run_folder: Path

    def ask(self, *words: str) -> str:
        """Its output, without its warnings."""
        done = run(["podman", "--log-level", "error", *words], env=self._environment)
        return done.output.strip()

    def reset(self) -> None:
        """Remove all images and unmount what holds them."""
        run(["podman", "system", "reset", "--force"], env=self._environment, check=False)
        shutil.rmtree(self.run_folder, ignore_errors=True)

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.variables}


def make_podman(folder: Path) -> Podman:
    """Set podman up in a folder; the test is skipped where it can't run a container."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    settings = _SETTINGS.format(files=min(soft, _FILES), folder=folder)
    (folder / "containers.conf").write_text(settings)
    variables = {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }
    short = Path(tempfile.mkdtemp(prefix="podman-", dir="/tmp"))
    podman = Podman(variables=variables, run_folder=short)
    # overlay doesn't lie on every file system.
    if said := _try_driver("overlay", podman, folder) and _try_driver("vfs", podman, folder):
        lack("podman", f"podman can't run a container: {said}", _PROVES)
    return podman


def _try_driver(driver: str, podman: Podman, folder: Path) -> str:
    """Make the image that holds a shell and run it; why not, where that fails."""
    text = _STORAGE.format(driver=driver, folder=folder, short=podman.run_folder)
    (folder / "storage.conf").write_text(text)
    try:
        image = import_files(podman, folder, "cuwheel-test/shell", _shell())
        podman.ask("run", "--rm", "--network", "none", image, "sh", "-c", ":")
    except CommandFailedError as problem:
        podman.reset()
        return " ".join(problem.tail)
    return ""


def import_files(podman: Podman, folder: Path, name: str, files: dict[str, Path]) -> str:
    """Make an image of files of this machine, by their paths in it, and return its name and ID."""
    archive = folder / "files.tar"
    with tarfile.open(archive, "w") as tar:
        for path, source in files.items():
            tar.add(source, path, recursive=False)
        for path in ("tmp", "etc", "proc", "sys", "dev"):
            made = tarfile.TarInfo(path)
            made.type, made.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(made)
        tar.addfile(tarfile.TarInfo("etc/passwd"), io.BytesIO())
    podman.ask("import", "--quiet", str(archive), f"localhost/{name}")
    return image_id(podman, f"localhost/{name}")


def image_id(podman: Podman, name: str) -> str:
    """What `--container` calls an image that was made here."""
    return f"sha256:{podman.ask('image', 'inspect', '--format', '{{.Id}}', name)}"


def debian_image(podman: Podman, cache: Path) -> str:
    """Debian with Python and GCC, made by debootstrap; the cache keeps it."""
    archive = cache / f"test-debian-{_SUITE}.tar"
    with file_lock(cache / "test-debian.lock"):
        if archive.exists():
            podman.ask("load", "--quiet", "--input", str(archive))
        else:
            _bootstrap(podman, archive)
    return image_id(podman, "localhost/cuwheel-test/debian")


def _bootstrap(podman: Podman, archive: Path) -> None:
    root = archive.with_suffix(".root")
    shutil.rmtree(root, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(root)]
    run(command, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    packed = archive.with_suffix(".files")
    without = ("./proc/*", "./sys/*", "./dev/*", "./var/cache/apt/*", "./var/lib/apt/lists/*")
    excluded = [f"--exclude={pattern}" for pattern in without]
    run(["tar", "-C", str(root), *excluded, "-cf", str(packed), "."], env={"PATH": os.defpath})
    shutil.rmtree(root)
    podman.ask("import", "--quiet", str(packed), "localhost/cuwheel-test/debian")
    packed.unlink()
    aside = archive.with_suffix(".new")
    podman.ask("save", "--quiet", "--format", "oci-archive", "--output", str(aside),
               "localhost/cuwheel-test/debian")  # fmt: skip
    aside.rename(archive)


def _shell() -> dict[str, Path]:
    """A shell and the libraries that it needs, at their places."""
    shell = Path(which("sh", os.defpath) or "/bin/sh").resolve()
    said = run(["ldd", str(shell)], env={"PATH": os.defpath}).output.split()
    libraries = {word.lstrip("/"): Path(word).resolve() for word in said if word.startswith("/")}
    return {"bin/sh": shell, **libraries}
