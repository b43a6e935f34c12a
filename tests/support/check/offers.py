"""An index of tiny wheels on a real server, and machines that ask it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from cuwheel.base.formats.wheel.provenance import BUILD_TYPE
from cuwheel.check.pick.document import PickDocument
from cuwheel.check.pick.pick import PickOptions, find
from tests.support.factories import write_wheel
from tests.support.servers.http import Site

PAYLOAD = 1 << 20  # bytes of a wheel: what is read of one is far less
MACHINE = "python=3.12,torch=2.11,cuda=13.0,arch=90,glibc=2.28,driver=580.95.05,platform=x86_64"
TAG = "cp312-cp312-manylinux_2_28_x86_64"


@dataclass(kw_only=True)
class Index:
    """A server with `/simple/toy/`.

    Attributes:
        folder: where wheels are made.
        site: the server.
        links: of the project's page.
    """

    folder: Path
    site: Site
    links: list[str] = field(default_factory=list)

    def add(  # noqa: PLR0913 - each is one fact of a wheel
        self,
        version: str = "1.0",
        tag: str = TAG,
        *requires: str,
        attributes: str = "",
        statement: dict[str, Any] | None = None,
        build_type: str = BUILD_TYPE,
        has_metadata: bool = False,
    ) -> Path:
        """Offer one more wheel of the project toy."""
        files: dict[str, bytes | Path] = {"toy.py": b"", "toy.bin": bytes(PAYLOAD)}
        path = write_wheel(
            self.folder, files, name="toy", version=version, tag=tag, requires=requires
        )
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        self.site.files[f"/files/{path.name}"] = content
        if statement is not None:
            self._add_statement(path.name, digest, statement, build_type)
        if has_metadata:
            lines = "".join(f"Requires-Dist: {one}\n" for one in requires)
            text = f"Metadata-Version: 2.4\nName: toy\nVersion: {version}\n{lines}\n".encode()
            self.site.files[f"/files/{path.name}.metadata"] = text
            attributes += f' data-core-metadata="sha256={hashlib.sha256(text).hexdigest()}"'
        quoted = path.name.replace("+", "%2B")
        self.links.append(
            f'<a href="../../files/{quoted}#sha256={digest}" {attributes}>{path.name}</a>'
        )
        self.site.files["/simple/toy/"] = "\n".join(self.links).encode()
        return path

    def _add_statement(
        self, name: str, digest: str, parameters: dict[str, Any], build_type: str
    ) -> None:
        definition = {"buildType": build_type, "externalParameters": parameters}
        stated = {
            "subject": [{"name": name, "digest": {"sha256": digest}}],
            "predicate": {"buildDefinition": definition},
        }
        self.site.files[f"/files/{name}.provenance.json"] = json.dumps(stated).encode()

    def pick(self, paper: str = MACHINE, wanted: str = "toy") -> PickDocument:
        """What `pick` finds here for a machine on paper."""
        return find_on(self.site.url("/simple/"), paper=paper, wanted=wanted)

    def downloads(self) -> Iterator[tuple[str, int]]:
        """Wheels of which parts were asked for, with the bytes that were."""
        for path, span in self.site.asked:
            if path.endswith(".whl"):
                first, _, last = span.removeprefix("bytes=").partition("-")
                yield path, int(last) - int(first) + 1 if span else PAYLOAD


def find_on(*addresses: str, paper: str = MACHINE, wanted: str = "toy") -> PickDocument:
    """What `pick` finds at some addresses for a machine on paper."""
    options = PickOptions(
        wanted=Requirement(wanted), paper=paper, indexes=addresses, start=Path.cwd()
    )
    environ = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple/", "PIP_CONFIG_FILE": "/dev/null"}
    return find(options, environ)
