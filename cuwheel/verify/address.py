"""A published wheel and its provenance, fetched from the address of either."""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from cuwheel import limits
from cuwheel.errors import DownloadError, UsageError
from cuwheel.fetch.download import PinnedFile, download
from cuwheel.fetch.urls import redact_url
from cuwheel.system.files import remove_tree
from cuwheel.wheel.publication import STATEMENT, statement_of

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.system.console import Console


_WHEEL = 16 * limits.GIB  # bytes
_HASH = "sha256="  # in an address' fragment, as indexes write it (PEP 503)


def is_address(text: str) -> bool:
    """Whether a command line names an address, not a file."""
    return urlsplit(text).scheme in {"http", "https", "file"}


def fetch_published(address: str, folder: Path, console: Console) -> Path:
    """Fetch a wheel and its provenance into a folder; gives back what was named of the two.

    Args:
        address: of a wheel, or of the statement beside one.
        folder: emptied first.
        console: shows the downloads.

    Raises:
        UsageError: it is the address of something else.
        CuwheelError: the server doesn't answer, hasn't got it, or sends other bytes than the
            address names.
    """
    parts = urlsplit(address)
    name = PurePosixPath(unquote(parts.path)).name
    is_statement = name.endswith(STATEMENT)
    wheel = folder / name.removesuffix(STATEMENT)
    if wheel.suffix != ".whl":
        raise UsageError(
            f"{redact_url(address)} is neither a wheel nor the provenance of one",
            why=f"its last part is {name or 'empty'}",
            fix="give the address of a .whl, or of the .provenance.json beside it",
        )
    remove_tree(folder)
    folder.mkdir(parents=True)
    of_wheel = parts.path.removesuffix(STATEMENT)
    sha256 = parts.fragment.removeprefix(_HASH) if parts.fragment.startswith(_HASH) else ""
    plain = parts._replace(fragment="")

    def get(path: Path, url_path: str, most: int, digest: str = "") -> None:
        file = PinnedFile(name=path.name, sha256=digest, max_size=most, pinned_by="the address")
        try:
            download(file, path, urlunsplit(plain._replace(path=url_path)), console=console)
        except DownloadError as problem:
            fix = "ask the publisher of the wheel for it; both are needed, side by side"
            raise DownloadError(problem.what, why=problem.why, fix=fix) from problem

    get(statement_of(wheel), f"{of_wheel}{STATEMENT}", limits.JSON)
    if is_statement:
        # What was published may be gone; then there are hashes to compare, and no kernels.
        with contextlib.suppress(DownloadError):
            get(wheel, of_wheel, _WHEEL)
        return statement_of(wheel)
    get(wheel, of_wheel, _WHEEL, sha256)
    return wheel
