"""METADATA of a wheel on an index, without the wheel: PEP 658, else parts of the file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import requests
from packaging.utils import InvalidWheelFilename

from cuwheel import limits
from cuwheel.errors import CuwheelError, DownloadError, UnsafeArchiveError
from cuwheel.fetch.remote_file import open_remote
from cuwheel.fetch.urls import is_local, local_path
from cuwheel.pypi.pages import read_page
from cuwheel.wheel.archive import open_wheel

if TYPE_CHECKING:
    from cuwheel.fetch.retry import Attempts
    from cuwheel.pypi.offers import Offer

_WINDOW = 1 << 15  # bytes of a request; METADATA and the table of most wheels are less


class UnreadMetadataError(Exception):
    """What a wheel requires can't be found out; the message goes on behind its name.

    Attributes:
        is_unusable: since the wheel is gone or damaged; else it may be sound.
    """

    def __init__(self, why: str, *, is_unusable: bool = False) -> None:
        super().__init__(why)
        self.is_unusable = is_unusable


def read_metadata(offer: Offer, attempts: Attempts) -> str:
    """METADATA of a wheel; what the server offers beside it, else out of the wheel.

    Of a wheel on a server no more is read than its table of members and that one.

    Args:
        offer: the wheel.
        attempts: at asking.

    Raises:
        UnreadMetadataError: the server doesn't give it.
    """
    if offer.has_metadata:
        answer = read_page(f"{offer.url}.metadata", attempts, "*/*")
        if not isinstance(answer, str) and _is_as_promised(answer.content, offer):
            return answer.content.decode("utf-8", "replace")
    try:
        if is_local(offer.url):
            with open_wheel(local_path(offer.url)) as wheel:
                return wheel.read_text("METADATA")
        with (
            open_remote(offer.url, window=_WINDOW) as stream,
            open_wheel(Path(offer.name), stream) as wheel,
        ):
            return wheel.read_text("METADATA")
    except CuwheelError as problem:
        is_gone = isinstance(problem, DownloadError) and problem.is_missing
        is_unusable = is_gone or isinstance(problem, UnsafeArchiveError)
        words = f"{problem.what}: {problem.why}"
        raise UnreadMetadataError(words, is_unusable=is_unusable) from problem
    except (OSError, InvalidWheelFilename, requests.RequestException) as problem:
        is_unusable = isinstance(problem, FileNotFoundError | InvalidWheelFilename)
        raise UnreadMetadataError(str(problem), is_unusable=is_unusable) from problem


def _is_as_promised(content: bytes, offer: Offer) -> bool:
    if len(content) > limits.METADATA:
        return False
    promised = offer.metadata_sha256
    return not promised or hashlib.sha256(content).hexdigest() == promised
