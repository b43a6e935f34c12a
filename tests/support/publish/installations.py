"""Real environments, tiny wheels of a recipe, and what `install` does with them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cuwheel.base.caller import Caller
from cuwheel.base.formats.wheel.publication import statement_of
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.recipe.recipe import Smoke
from cuwheel.build.recipe.target import Target
from cuwheel.publish.install.install import Installed, InstallOptions, install
from tests.support.factories import make_target, write_wheel
from tests.support.servers.http import Site

GOOD = "VERSION = {version!r}\ndef add(a, b):\n    return a + b\n"
BROKEN = "raise ImportError('undefined symbol: toy')\n"

_RECIPE = """\"\"\"toy: a toy.\"\"\"

from cuwheel import Link, Recipe, Sdist, Setuptools, Smoke

RECIPE = Recipe(
    name="toy",
    version="1.0",
    license="MIT",
    homepage="https://example.invalid/toy",
    maintainers=("someone",),
    source=Sdist(project="toy", sha256="{sha256}"),
    toolkits=("13.0",),
    archs=("90",),
    requires=("setuptools",),
    build=Setuptools(),
    link=Link("cudart"),
    smoke=Smoke(imports=("toy",), call="toy.add(1, 2)", expect="3"),
)
"""


def write_project(folder: Path) -> Path:
    """A project with the recipe of toy."""
    recipe = folder / "recipes" / "toy.py"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(_RECIPE.format(sha256="0" * 64))
    return folder


def uv_environment(folder: Path) -> Path:
    """An environment without pip."""
    uv = Path(sys.executable).with_name("uv")
    words = (uv, "venv", "--quiet", "--no-config", "--python", sys.executable, folder)
    subprocess.run(words, check=True)
    return folder


def pip_environment(folder: Path) -> Path:
    """An environment with pip."""
    words = (sys.executable, "-m", "virtualenv", "--quiet", "--no-periodic-update", folder)
    subprocess.run(words, check=True)
    return folder


def state(environment: Path) -> dict[str, bytes]:
    """All files of its packages but byte code, with their content."""
    [site] = environment.glob("lib/python*/site-packages")
    return {
        str(path.relative_to(site)): path.read_bytes()
        for path in site.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def versions(environment: Path, project: str = "toy") -> list[str]:
    """Versions of a project that are installed."""
    found = environment.glob(f"lib/python*/site-packages/{project}-*.dist-info")
    return [path.name.removesuffix(".dist-info").partition("-")[2] for path in found]


def offer(  # noqa: PLR0913 - each is one fact of a wheel
    dist: Path,
    version: str = "1.0+cu130",
    content: str = GOOD,
    *,
    name: str = "toy",
    tag: str = "py3-none-any",
    requires: tuple[str, ...] = (),
    stated: str | None = "",
) -> Path:
    """Put a wheel into a folder, with a statement about it, or about other bytes, or none."""
    files: dict[str, bytes | Path] = {f"{name}.py": content.format(version=version).encode()}
    wheel = write_wheel(dist, files, name=name, version=version, tag=tag, requires=requires)
    if stated is not None:
        sha256 = stated or hashlib.sha256(wheel.read_bytes()).hexdigest()
        statement_of(wheel).write_text(statement(wheel.name, sha256))
    return wheel


def statement(name: str, sha256: str, **changes: Any) -> str:
    """A statement as builds leave it, with what counts."""
    predicate = {
        "buildDefinition": {"externalParameters": {"toolkit": "13.0", "archs": ["90"]}},
        "runDetails": {"builder": {"id": "urn:test"}},
    }
    whole = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": sha256}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": predicate,
        **changes,
    }
    return json.dumps(whole)


@dataclass(kw_only=True)
class Installing:
    """`install` in one environment.

    Attributes:
        environment: its folder.
        folder: of the test.
        built: where a build puts a wheel, and how often it was asked for one.
    """

    environment: Path
    folder: Path
    built: int = 0

    @property
    def dist(self) -> Path:
        """The folder with wheels."""
        return self.folder / "dist"

    def run(self, target: Target | None = None, **options: Any) -> Installed:
        """Install toy-130 out of the folder; options are those of `InstallOptions`."""
        options.setdefault("addresses", (self.dist.as_uri(),))
        options.setdefault("environ", self.environ())
        asked = InstallOptions(
            target=target or toy(),
            python=str(self.environment),
            start=Path("/"),
            caller=Caller({**os.environ, "CUWHEEL_CACHE": str(self.folder / "cache")}),
            **options,
        )
        return install(asked, Console(), self._build)

    def environ(self) -> dict[str, str]:
        """No index but an empty folder."""
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        return {
            "PATH": f"{os.defpath}:{Path(sys.executable).parent}",  # where uv is
            "HOME": str(self.folder),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": empty.as_uri(),
            "PIP_FIND_LINKS": str(self.folder / "links"),
            "UV_INDEX_URL": empty.as_uri(),
            "UV_FIND_LINKS": str(self.folder / "links"),
            "UV_NO_CONFIG": "1",
            "UV_CACHE_DIR": str(self.folder / "uv"),
            "NO_PROXY": "127.0.0.1",
        }

    def _build(self, _: Path) -> Path:
        self.built += 1
        return offer(self.folder / "built", "9.0+cu130")


def toy(**changes: Any) -> Target:
    """The target toy-130."""
    smoke = Smoke(imports=("toy",), call="toy.add(1, 2)", expect="3")
    return make_target(**{"name": "toy", "version": "1.0", "smoke": smoke, **changes})


def site_of(environment: Path) -> Path:
    """Its site-packages."""
    [site] = environment.glob("lib/python*/site-packages")
    return site


def plant(environment: Path, name: str, files: dict[str, bytes]) -> None:
    """Put an installed package 1.0 into an environment, with a RECORD."""
    site = site_of(environment)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()
    info = f"{name}-1.0.dist-info"
    contents = {**files, f"{info}/METADATA": metadata, f"{info}/INSTALLER": b"pip\n"}
    for path, content in contents.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(content)
    names = (*contents, f"{info}/RECORD")
    (site / info / "RECORD").write_text("".join(f"{path},,\n" for path in names))


def wheel_site(wheel: Path, sha256: str | None = "", project: str = "toy") -> Site:
    """Return a server with a wheel, and a page that has its hash, another one, or none (None)."""
    digest = sha256_of_file(wheel) if sha256 == "" else sha256
    link = f"/files/{quote(wheel.name)}{f'#sha256={digest}' if digest else ''}"
    page = f'<a href="{link}">{wheel.name}</a>'.encode()
    return Site(files={f"/simple/{project}/": page, f"/files/{wheel.name}": wheel.read_bytes()})
