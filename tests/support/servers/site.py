"""A published site, served as docs/how-to/publish.md has nginx do it."""

from __future__ import annotations

import contextlib
import functools
import http.server
import sys
from collections.abc import Iterator
from pathlib import Path

from cuwheel.base.system import process
from tests.support.servers.http import running

_JSON = "application/vnd.pypi.simple.v1+json"


class _Negotiating(http.server.SimpleHTTPRequestHandler):
    """Serves the JSON form to whoever asks for it."""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.endswith("/") and _JSON in self.headers.get("Accept", ""):
            self.path += "index.json"
            self.extensions_map = {**self.extensions_map, ".json": _JSON}
        super().do_GET()


@contextlib.contextmanager
def serving_site(folder: Path) -> Iterator[str]:
    """Serve a folder until the block ends; gives its address."""
    handler = functools.partial(_Negotiating, directory=str(folder))
    with running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)) as address:
        yield address


def uv_install(index: str, target: Path, *words: str, **variables: str) -> process.Finished:
    """Install from an index into a folder, by the tests' own uv."""
    uv = Path(sys.executable).with_name("uv")
    options = ("--python", sys.executable, "--no-cache", "--no-config", "--target", target)
    return process.run(
        [uv, "pip", "install", *options, "--index-url", index, *words],
        env={"PATH": "/usr/bin:/bin", "HOME": str(target.parent), **variables},
        check=False,
    )
