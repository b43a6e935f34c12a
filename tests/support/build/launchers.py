"""A toolkit's view with its launcher, without a build around it; and what a build works on."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.base.system.process import Finished, run
from cuwheel.build.compile.environment import BuildInputs
from cuwheel.build.compile.toolkit_view import ToolkitView, ViewPaths
from cuwheel.build.workspace.records import Environment, Preflight, Toolchain

ALL_FLAGS = ("path", "seed", "objtemp")
BASE_PYTHON = Path(getattr(sys, "_base_executable", sys.executable)).resolve()


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A folder in which something is compiled.

    Attributes:
        folder: holds all but perhaps the source.
        source: where programs start.
        inside: the view's parts.
    """

    folder: Path
    source: Path
    inside: ViewPaths

    @property
    def log(self) -> Path:
        return self.folder / "events.jsonl"

    @property
    def nvcc(self) -> Path:
        return self.inside.view / "bin" / "nvcc"

    def write(self, name: str, text: str) -> Path:
        """A file of the source."""
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, *words: str | Path, **variables: str) -> Finished:
        """Run a program in the folder of the source, with our names first on PATH."""
        env = {
            "PATH": f"{self.inside.programs}:{self.inside.view / 'bin'}:{SYSTEM_PATH}",
            "TMPDIR": str(self.folder / "tmp"),
            "SOURCE_DATE_EPOCH": "315532800",
            "LC_ALL": "C.UTF-8",
            **variables,
        }
        return run(list(words), env=env, cwd=self.source, check=False)

    def events(self) -> list[dict[str, Any]]:
        """What the launcher has noted so far."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [event for event in map(json.loads, lines) if event["kind"] == "compile"]


def make_bench(  # noqa: PLR0913 - what a bench may have of its own, each with a default
    folder: Path,
    home: Path,
    *,
    source: Path | None = None,
    flags: tuple[str, ...] = ALL_FLAGS,
    cc: Path = Path("/usr/bin/gcc"),
    cxx: Path = Path("/usr/bin/g++"),
    driver_stub: bytes = b"",
    fingerprint: str = "fingerprint",
    **settings: object,
) -> Bench:
    """A view of the toolkit at `home` and its launcher, which maps the folder's names."""
    inside = ViewPaths(
        view=folder / "cuda",
        launcher=folder / "launcher",
        toolkit=home,
        python=BASE_PYTHON,
        cc=cc,
        cxx=cxx,
    )
    source = source or folder / "source"
    source.mkdir(parents=True, exist_ok=True)
    for made in (inside.view, inside.launcher, folder / "tmp"):
        made.mkdir(parents=True)
    real = {"tmp": folder / "tmp", "cuda": inside.view, "source": source}
    maps = tuple((str(path), f"/cuwheel/{name}") for name, path in real.items())
    view = ToolkitView(real=inside, inside=inside, fingerprint=fingerprint)
    view.make(driver_stub)
    stated = {
        **view.settings(maps=maps, flags=flags),
        "events": str(folder / "events.jsonl"),
        **settings,
    }
    view.make_launcher(stated)
    return Bench(folder=folder, source=source, inside=inside)


def make_inputs(folder: Path) -> BuildInputs:
    """What a build with the machine's compiler works on; of its folders none is there yet."""
    env = folder / "env"
    return BuildInputs(
        tree=folder / "tree",
        epoch=0,
        toolchain=Toolchain(
            home=folder / "toolkit",
            version="13.0.88",
            provider="pypi",
            fingerprint="",
            pinned=True,
        ),
        python=Environment(
            python=env / "bin" / "python",
            site_packages=env / "lib" / "python3.11" / "site-packages",
            fingerprint="",
            base_python=folder / "python" / "bin" / "python3",
            base_version="3.11.7",
        ),
        machine=Preflight(
            host_compiler=Path("/usr/bin/g++"),
            c_compiler=Path("/usr/bin/gcc"),
            host_compiler_version="",
            jobs=3,
        ),
        home=folder / "home",
        tmp=folder / "tmp",
        toolbox=folder / "toolbox",
        resources=folder / "resources",
        view=folder / "cuda",
        launcher=folder / "launcher",
        events=folder / "events",
        memory=folder / "sockets" / "memory.sock",
        target_python=folder / "target-python",
        target_libraries=folder / "target-libraries",
    )
