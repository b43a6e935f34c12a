"""Copies of a published site in which something is wrong."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

_HTML = {
    "requires-python": "data-requires-python",
    "core-metadata": "data-core-metadata",
    "yanked": "data-yanked",
}


@dataclass(kw_only=True)
class SiteCopy:
    """A site whose page of the project `toy` can be written anew.

    Attributes:
        folder: of the site.
        address: where it is served.
        page: the JSON form of the page; `write` derives the HTML form from it.
        html: likewise for entries of which HTML says something else.
    """

    folder: Path
    address: str = ""
    page: dict[str, Any] = field(default_factory=dict)
    html: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, site: Path, folder: Path) -> SiteCopy:
        """A copy of a site."""
        shutil.copytree(site, folder)
        copy = cls(folder=folder)
        copy.page = json.loads((copy.project / "index.json").read_text())
        return copy

    @property
    def project(self) -> Path:
        """The folder of the page."""
        return self.folder / "simple" / "toy"

    @property
    def entry(self) -> dict[str, Any]:
        """The first file on the page."""
        first: dict[str, Any] = self.page["files"][0]
        return first

    @property
    def wheel(self) -> Path:
        """That file."""
        name: str = self.entry["filename"]
        return self.folder / "files" / name

    @property
    def metadata(self) -> Path:
        """Its METADATA file."""
        return self.wheel.with_name(f"{self.wheel.name}.metadata")

    def write(self) -> None:
        """Write both forms of the page."""
        (self.project / "index.json").write_text(json.dumps(self.page))
        links = [
            _link({**one, **(self.html if one is self.entry else {})}) for one in self.page["files"]
        ]
        (self.project / "index.html").write_text(f"<!DOCTYPE html>\n{''.join(links)}")

    def replace_wheel(self, content: bytes) -> None:
        """Put another file in the wheel's place, and its hash and size on the page."""
        self.wheel.write_bytes(content)
        self.entry["hashes"] = {"sha256": hashlib.sha256(content).hexdigest()}
        self.entry["size"] = len(content)

    def replace_metadata(self, content: bytes) -> None:
        """Put another file in the place of METADATA, and its hash on the page."""
        self.metadata.write_bytes(content)
        self.entry["core-metadata"] = {"sha256": hashlib.sha256(content).hexdigest()}

    def edit_wheel(self, edits: Mapping[str, Callable[[bytes], bytes]]) -> None:
        """Change members of the wheel whose names end so, and nothing else."""
        made = self.wheel.with_suffix(".new")
        with zipfile.ZipFile(self.wheel) as old, zipfile.ZipFile(made, "w") as new:
            for name in old.namelist():
                content = old.read(name)
                for end, edit in edits.items():
                    content = edit(content) if name.endswith(end) else content
                new.writestr(name, content)
        content = made.read_bytes()
        made.unlink()
        self.replace_wheel(content)


def _link(entry: Mapping[str, Any]) -> str:
    hashes = "".join(f"#{name}={digest}" for name, digest in entry["hashes"].items())
    said = {"href": f"{entry['url']}{hashes}"}
    for name, attribute in _HTML.items():
        if (value := entry.get(name)) is not None:
            digests = value.items() if isinstance(value, dict) else ()
            said[attribute] = "".join(f"{one}={digest}" for one, digest in digests) or (
                "" if value is True else str(value)
            )
    words = " ".join(f'{name}="{escape(str(value))}"' for name, value in said.items())
    return f"<a {words}>{escape(entry['filename'])}</a>\n"


def url_of(name: str) -> str:
    """How the page of a project links a file of the site."""
    return f"../../files/{quote(name)}"
