"""An index over HTTP with tiny wheels of several projects."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.factories import write_wheel
from tests.support.servers.http import Site

LINUX = "manylinux_2_28_x86_64"


@dataclass(kw_only=True)
class WheelIndex:
    """A server with simple indexes, by default below `/simple/`.

    Attributes:
        folder: where wheels are made.
        site: the server.
    """

    folder: Path
    site: Site
    links: dict[str, list[str]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The address of the main index."""
        return self.site.url("/simple/")

    def add(  # noqa: PLR0913 - each is one fact of a wheel
        self,
        name: str,
        version: str,
        *requires: str,
        python: str = "cp312",
        tag: str = "",
        at: str = "/simple",
        content: bytes = b"",
    ) -> str:
        """Offer a wheel on a project's page; return its file name."""
        module = name.replace("-", "_")
        tag = tag or f"{python}-{python}-{LINUX}"
        files: dict[str, bytes | Path] = {f"{module}.py": content}
        path = write_wheel(
            self.folder, files, name=module, version=version, tag=tag, requires=requires
        )
        self.list_file(f"{at}/{name}/", path)
        return path.name

    def list_file(self, page: str, path: Path, *, has_hash: bool = True) -> None:
        """Serve a file, and link it on a page."""
        data = path.read_bytes()
        self.site.files[f"/files/{path.name}"] = data
        fragment = f"#sha256={hashlib.sha256(data).hexdigest()}" if has_hash else ""
        quoted = path.name.replace("+", "%2B")
        links = self.links.setdefault(page, [])
        links.append(f'<a href="/files/{quoted}{fragment}">{path.name}</a>')
        self.site.files[page] = "\n".join(links).encode()

    def add_sdist(self, name: str, version: str) -> None:
        """Offer a source."""
        path = self.folder / f"{name.replace('-', '_')}-{version}.tar.gz"
        path.write_bytes(b"a source")
        self.list_file(f"/simple/{name}/", path)

    def add_torch(self, *releases: str, pythons: tuple[str, ...] = ("cp311", "cp312")) -> None:
        """Offer PyTorch's releases for some Pythons."""
        for release in releases:
            for python in pythons:
                self.add("torch", release, python=python)
