"""Pages of indexes and of releases, read with limits; why one can't be read is a text."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit, urlunsplit

import pypi_simple
import requests
from requests.structures import CaseInsensitiveDict

from cuwheel import limits
from cuwheel.fetch.slow import SLOW_FIX
from cuwheel.fetch.urls import is_local, local_path
from cuwheel.fetch.web import open_session, unreachable
from cuwheel.system.parallel import run_within
from cuwheel.system.quantities import show_size

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from cuwheel.fetch.retry import Attempts

    Read = TypeVar("Read")
    Kind = Literal["missing", "unreadable", "unasked"]

_CHUNK = 1 << 16  # bytes
_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


class PageFault(str):
    """Why there is no page, as words behind the address.

    Attributes:
        kind: `missing`: whoever was asked hasn't got it; `unreadable`: what came is another thing;
            `unasked`: nobody knows, since nobody answered, or with an error.
    """

    __slots__ = ("kind",)
    kind: Kind

    def __new__(cls, words: str, kind: Kind) -> PageFault:  # noqa: PYI034 - Self is newer than Python 3.10
        """Words with their kind."""
        fault = super().__new__(cls, words)
        fault.kind = kind
        return fault


_NO_INDEX = PageFault("is not a simple index (PEP 503 or 691)", "unreadable")


def read_project_page(
    index: str, project: str, attempts: Attempts
) -> pypi_simple.ProjectPage | PageFault:
    """An index's page of a project, or why there is none.

    Args:
        index: address of a simple index (PEP 503 or 691).
        project: its name.
        attempts: at asking.
    """
    return _read_or_say_why(index, project, attempts, _read_project_page)


def read_page(url: str, attempts: Attempts, accept: str) -> requests.Response | PageFault:
    """Any page with a limit, or why there is none.

    Args:
        url: http, https or file.
        attempts: at asking.
        accept: the forms that are understood, for a server.
    """
    return _read_or_say_why(url, accept, attempts, _read_page)


def lacks(project: str) -> PageFault:
    """What is said of an index that has no page of a project."""
    return PageFault(f"has no {project}", "missing")


def answered(status: int) -> PageFault:
    """What is said of a server that answered with an error status."""
    return PageFault(f"answered {status}", "missing" if status in _GONE else "unasked")


def with_credentials(url: str, index: str) -> str:
    """A file on the index's own host needs the user and password that the index needed."""
    file, page = urlsplit(url), urlsplit(index)
    secret, _, host = page.netloc.rpartition("@")
    if secret and (file.scheme, file.netloc) == (page.scheme, host):
        return urlunsplit(file._replace(netloc=page.netloc))
    return url


def _read_or_say_why(  # noqa: PLR0911 - one for each way in which a server can fail
    url: str, about: str, attempts: Attempts, read: Callable[[str, str, Attempts], Read]
) -> Read | PageFault:
    try:
        return read(url, about, attempts)
    except pypi_simple.NoSuchProjectError as problem:
        return lacks(problem.project)
    except requests.HTTPError as problem:
        return answered(problem.response.status_code)
    except requests.JSONDecodeError:
        return _NO_INDEX
    except requests.RequestException as problem:
        return PageFault(unreachable(url, problem, fix="").why, "unasked")
    except TimeoutError:
        limit = attempts.retry_policy.limit
        words = f"sent no complete page within {limit:.0f} seconds ({SLOW_FIX})"
        return PageFault(words, "unasked")
    except _PageError as problem:
        return PageFault(f"{problem}; none has that", "unreadable")
    except OSError as problem:
        is_missing = isinstance(problem, FileNotFoundError | NotADirectoryError)
        words = f"can't be read: {problem.strerror}"
        return PageFault(words, "missing" if is_missing else "unasked")
    except (pypi_simple.UnsupportedRepoVersionError, ValueError, RecursionError):
        return _NO_INDEX


def _read_project_page(index: str, project: str, attempts: Attempts) -> pypi_simple.ProjectPage:
    with pypi_simple.PyPISimple(index, session=open_session(attempts)) as client:
        url, accept = client.get_project_url(project), client.accept
    if is_local(index):
        url = f"{url}index.html"
    try:
        page = _read_page(url, accept, attempts)
    except (FileNotFoundError, NotADirectoryError):
        raise pypi_simple.NoSuchProjectError(project, url) from None
    except requests.HTTPError as problem:
        if problem.response.status_code in _GONE:
            raise pypi_simple.NoSuchProjectError(project, url) from None
        raise
    return pypi_simple.ProjectPage.from_response(page, project)


def _read_page(url: str, accept: str, attempts: Attempts) -> requests.Response:
    if not is_local(url):
        # A session's own time-outs don't end what comes slowly.
        return run_within(attempts.left, partial(_ask_server, url, accept, attempts), attempts.stop)
    with local_path(url).open("rb") as stream:
        content = stream.read(limits.INDEX_PAGE + 1)
    kind = "application/json" if url.endswith(".json") else "text/html"
    return _page(url, content, accept, CaseInsensitiveDict({"Content-Type": kind}))


def _ask_server(url: str, accept: str, attempts: Attempts) -> requests.Response:
    with (
        open_session(attempts) as session,
        session.get(url, headers={"Accept": accept}, stream=True) as answer,
    ):
        answer.raise_for_status()
        content = bytearray()
        for piece in answer.iter_content(_CHUNK):
            content += piece
            if len(content) > limits.INDEX_PAGE:
                break
        return _page(answer.url, content, accept, answer.headers)


def _page(
    url: str, content: bytes | bytearray, accept: str, headers: CaseInsensitiveDict[str]
) -> requests.Response:
    """A page that costs no more memory than a page of an index does."""
    whole = requests.Response()
    whole.status_code = HTTPStatus.OK
    whole.url, whole.headers = url, headers
    is_html = "html" in accept and "json" not in headers.get("Content-Type", "")
    whole.raw = BytesIO(_checked(content, is_html=is_html))
    return whole


def _checked(page: bytes | bytearray, *, is_html: bool) -> bytes:
    """The page's bytes.

    Raises:
        _PageError: it would cost more memory than a page of an index does.
    """
    if len(page) > limits.INDEX_PAGE:
        raise _PageError(f"sent a page of more than {show_size(limits.INDEX_PAGE)}")
    if page.count(b">" if is_html else b"{") > limits.INDEX_TAGS:
        raise _PageError(f"sent a page with more than {limits.INDEX_TAGS:,} tags or objects")
    if is_html and max(map(len, page.split(b">"))) > limits.INDEX_TAG:
        raise _PageError(f"sent a page with a tag of more than {show_size(limits.INDEX_TAG)}")
    return bytes(page)


class _PageError(ValueError):
    """A page of an index is refused; the message goes on behind the index's name."""
