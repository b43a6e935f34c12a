"""A sandbox that looks like a plain build machine, so that a log says nothing of the real one.

The user is `builder` in `/home/builder` on the host `builder`; there is no network but a package
index of its own, at `mirror.example`; Pythons stand in `/opt`, the toolkit where it always does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from tests.logs.parts import TOOLKIT, MissingPartError, Parts, needs

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME = "/home/builder"
_USER = "1000"
_TIMEOUT = 900  # seconds that one script may take
_SITE = f"{HOME}/venv/lib/python{{}}/site-packages"
_PATH = (f"{HOME}/venv/bin", f"{TOOLKIT}/bin", "/usr/bin", "/bin")
_ENV = {
    "HOME": HOME,
    "USER": "builder",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PATH": ":".join(_PATH),
    "PIP_INDEX_URL": "http://mirror.example:8080/simple",
    "PIP_TRUSTED_HOST": "mirror.example",
    "UV_DEFAULT_INDEX": "http://mirror.example:8080/simple",
    "UV_PYTHON_DOWNLOADS": "never",
    "UV_LINK_MODE": "copy",
}
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime")
_SERVE = """
/opt/python{0}/bin/python{0} -m http.server -d /srv/index 8080 >/dev/null 2>&1 &
until (: < /dev/tcp/127.0.0.1/8080) 2>/dev/null; do sleep 0.1; done
"""


@dataclass(kw_only=True)
class Box:
    """One case's sandbox; what is mounted and exported may be changed until it runs.

    Attributes:
        folder: of the case on the real machine; its `home` is `/home/builder`.
        log: the file that takes what `record` prints.
        version: of Python in the virtual environment, once there is one.
    """

    parts: Parts
    folder: Path
    log: Path
    env: dict[str, str] = field(default_factory=lambda: dict(_ENV))
    mounts: list[str] = field(default_factory=list)
    version: str = "3.11"

    @property
    def home(self) -> Path:
        """`/home/builder`, on the real machine."""
        return self.folder / "home"

    def write(self, files: dict[str, str]) -> None:
        """Write texts into the home folder; indentation that all lines share is taken away."""
        for name, text in files.items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(textwrap.dedent(text).lstrip("\n"))

    def add_python(self, version: str = "3.11", *packages: str) -> None:
        """Give the box a Python in /opt and a virtual environment of it, with packages."""
        self.version = version
        place = f"/opt/python{version}"
        self.mounts += ["--ro-bind", str(self.parts.python(version)), place]
        self._copy_venv(place, version)
        if packages:
            self.prepare(f"pip install -q {' '.join(packages)}")

    def _copy_venv(self, place: str, version: str) -> None:
        """One environment a Python is made; the boxes have copies."""
        kept = self.parts.folder / f"venv{version}"
        if not kept.is_dir():
            self.prepare(f"{place}/bin/python{version} -m venv venv")
            shutil.copytree(self.home / "venv", kept, symlinks=True)
        else:
            shutil.copytree(kept, self.home / "venv", symlinks=True)

    def add_torch(self) -> None:
        """Lay torch into the virtual environment, read-only: copying it takes too long."""
        self.add_packages("torch-*+cpu-cp311-*")
        light = ("filelock", "typing_extensions", "sympy", "networkx", "jinja2", "fsspec")
        self.add_packages(*(f"{name}-*" for name in (*light, "mpmath", "markupsafe-*cp311*")))

    def add_cuda_torch(self) -> None:
        """Lay torch for CUDA 13, its libraries and Triton into the virtual environment."""
        self._mount_packages(self.parts.cuda_torch())

    def add_packages(self, *patterns: str) -> None:
        """Mount the content of wheels into site-packages."""
        self._mount_packages(self.parts.unpacked(*patterns))

    def _mount_packages(self, folder: Path) -> None:
        site = _SITE.format(self.version)
        own = self.home / Path(site).relative_to(HOME)
        for entry in sorted(folder.iterdir()):
            if not (own / entry.name).exists():
                self.mounts += ["--ro-bind", str(entry), f"{site}/{entry.name}"]

    def hide(self, *folders: str) -> None:
        """Empty folders of the machine."""
        for folder in folders:
            self.mounts += ["--tmpfs", folder]

    def hide_file(self, *files: str) -> None:
        """Lay a file that can neither be read nor run over others; none can be taken away."""
        nothing = self.folder / "nothing"
        nothing.touch(mode=0)
        for file in files:
            self.mounts += ["--ro-bind", str(nothing), file]

    def prepare(self, script: str) -> None:
        """Run what went well before the failure; nothing of it is logged."""
        ran = subprocess.run(self._command(script), check=False, capture_output=True, text=True)
        if ran.returncode:
            raise MissingPartError(f"could not prepare: {(ran.stdout + ran.stderr)[-2000:]}")

    def record(self, script: str, *, stamped: bool = False, gate: str = "") -> int:
        """Run a script, add all it prints to the log, return its status.

        Args:
            script: for bash, in the home folder.
            stamped: put the time before each line, as GitHub's runners do.
            gate: a shell command that runs the sandbox, to limit it from outside.
        """
        command = [*gate.split(), *self._command(script)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        ) as running:
            assert running.stdout is not None
            with self.log.open("ab") as log:
                for line in running.stdout:
                    log.write((_stamp() if stamped else b"") + line)
            return running.wait(_TIMEOUT)

    def _command(self, script: str) -> list[str]:
        served = _SERVE.format(self.version) if self._has_python() else ""
        options = [*_system(), *self._etc(), *self.mounts, *self._places()]
        settings = [word for item in self.env.items() for word in ("--setenv", *item)]
        return [needs("bwrap"), *options, *settings, "bash", "-c", served + script]

    def _has_python(self) -> bool:
        return f"/opt/python{self.version}" in self.mounts

    def _places(self) -> Iterator[str]:
        self.home.mkdir(parents=True, exist_ok=True)
        yield from ("--ro-bind", str(self.parts.index()), "/srv/index")
        yield from ("--chdir", HOME)

    def _etc(self) -> Iterator[str]:
        """The files of /etc that tools read; those that name the machine are made anew."""
        yield from ("--bind", str(self.home), HOME)
        for name in _ETC:
            if Path("/etc", name).exists():
                yield from ("--ro-bind", f"/etc/{name}", f"/etc/{name}")
        made = {
            "passwd": f"builder:x:{_USER}:{_USER}::{HOME}:/bin/bash\n",
            "group": f"builder:x:{_USER}:\n",
            "hosts": "127.0.0.1 localhost builder mirror.example\n",
        }
        (self.folder / "etc").mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            (self.folder / "etc" / name).write_text(text)
            yield from ("--ro-bind", str(self.folder / "etc" / name), f"/etc/{name}")


def _system() -> Iterator[str]:
    yield from ("--unshare-all", "--die-with-parent", "--new-session", "--clearenv")
    yield from ("--hostname", "builder", "--uid", _USER, "--gid", _USER)
    yield from ("--ro-bind", "/usr", "/usr", "--tmpfs", "/usr/local")
    for name in ("bin", "lib", "lib64", "sbin"):
        yield from ("--symlink", f"usr/{name}", f"/{name}")
    if TOOLKIT.is_dir():
        yield from ("--ro-bind", os.path.realpath(TOOLKIT), str(TOOLKIT))
        yield from ("--symlink", str(TOOLKIT), "/usr/local/cuda")
    yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/dev/shm")
    yield from ("--dir", "/home", "--dir", "/opt", "--dir", "/srv", "--dir", "/etc")


def _stamp() -> bytes:
    now = datetime.now(timezone.utc)
    return f"{now:%Y-%m-%dT%H:%M:%S.%f}0Z ".encode()


def empty(folder: Path) -> None:
    """Remove a case's folder, read-only folders in it too."""
    subprocess.run(["chmod", "-R", "u+rwX", folder], check=False, stderr=subprocess.DEVNULL)
    shutil.rmtree(folder, ignore_errors=True)
