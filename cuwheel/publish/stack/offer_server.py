"""A simple index on loopback with the wheels among which uv may choose (PEP 691)."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus

from cuwheel.base.errors import CuwheelError
from cuwheel.base.fetch.indexes.offers import Offer

_JSON = "application/vnd.pypi.simple.v1+json"
_NAME = re.compile(r"[a-z0-9-]+")  # normalised
_POLL = 0.05  # seconds between two checks for the end


@contextlib.contextmanager
def serving_offers(
    offers: Mapping[str, Sequence[Offer]], find: Callable[[str], Sequence[Offer]]
) -> Iterator[str]:
    """Serve a page for each project while the block runs; gives the index's address.

    Files stay where they are. The address holds a secret, as those of the files may hold passwords
    and every user of this machine can connect.

    Args:
        find: returns the files of any other project; for none the next index is searched. After a
            CuwheelError uv ends, as it doesn't try again after a 400.
    """
    root = f"/{secrets.token_urlsafe()}/"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            project = self.path.removeprefix(root).removesuffix("/")
            if self.path != f"{root}{project}/" or not _NAME.fullmatch(project):
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            try:
                files = offers[project] if project in offers else find(project)
            except CuwheelError:
                self.send_error(HTTPStatus.BAD_REQUEST)
                return
            if not files and project not in offers:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            self._send(_page(project, files))

        def _send(self, page: bytes) -> None:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", _JSON)
            self.send_header("Content-Length", str(len(page)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(_POLL,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}{root}"
        finally:
            server.shutdown()
            thread.join()


def _page(project: str, offers: Sequence[Offer]) -> bytes:
    files = [
        {
            "filename": offer.name,
            "url": offer.url,
            "hashes": {"sha256": offer.sha256} if offer.sha256 else {},
            **({"requires-python": offer.requires_python} if offer.requires_python else {}),
            **({"core-metadata": _metadata(offer)} if offer.has_metadata else {}),
            **({"size": offer.size} if offer.size is not None else {}),
            **({"yanked": offer.yanked} if offer.yanked is not None else {}),
        }
        for offer in offers
    ]
    return json.dumps({"meta": {"api-version": "1.0"}, "name": project, "files": files}).encode()


def _metadata(offer: Offer) -> bool | dict[str, str]:
    return {"sha256": offer.metadata_sha256} if offer.metadata_sha256 else True
