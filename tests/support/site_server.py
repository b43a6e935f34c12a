"""A published site, served as docs/how-to/publish.md has nginx do it."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
