"""Pages of indexes and of releases, read with limits, and rules for the addresses on them.

The author of a page chooses the addresses of files, METADATA, statements and attestations on it. A
server must not lead to files of this machine, nor from https down to http, and a folder not out of
itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import requests
from requests.structures import CaseInsensitiveDict

from cuwheel.base import limits
from cuwheel.base.fetch.retry import SLOW_FIX, Attempts
from cuwheel.base.fetch.urls import is_local, local_path, redact_url
from cuwheel.base.fetch.web import open_session, unreachable
from cuwheel.base.formats.wheel.publication import SIMPLE
from cuwheel.base.system.parallel import run_within
from cuwheel.base.system.quantities import show_size
from cuwheel.base.system.regular_files import open_file

if TYPE_CHECKING:
    import pypi_simple

Read = TypeVar("Read")
Kind = Literal["missing", "unreadable", "unasked"]

_CHUNK = 1 << 16  # bytes
_WEB = ("http", "https")
# pip's and uv's variables for hosts that are trusted without https: `HOST` or `HOST:PORT`.
_TRUSTED_HOSTS = ("PIP_TRUSTED_HOST", "UV_INSECURE_HOST")
_ODD = re.compile(r"[\x00-\x1f\x7f\\/]")  # in a part of a path, decoded
_CUDA_FOLDER = re.compile(r"cu\d+")  # a site has an index for each CUDA release: cu130/simple
_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


class PageFault(str):
    """Reason why there is no page, a text to follow the address.

    Attributes:
        kind: `missing`: the server hasn't got it; `unreadable`: it is no page of an index;
            `unasked`: unknown, since the server didn't answer, or with an error, or since not all
            of its pages were read.
    """

    __slots__ = ("kind",)
    kind: Kind

    def __new__(cls, text: str, kind: Kind) -> PageFault:  # noqa: PYI034 - Self is newer than Python 3.10
        """Create a text with a kind."""
        fault = super().__new__(cls, text)
        fault.kind = kind
        return fault


_NO_INDEX = PageFault("is not a simple index (PEP 503 or 691)", "unreadable")


def read_project_page(
    index: str, project: str, attempts: Attempts
) -> pypi_simple.ProjectPage | PageFault:
    """Read a project's page of a simple index (PEP 503 or 691), or return why there is none."""
    return _read_or_fault(index, project, attempts, _read_project_page)


def read_page(url: str, attempts: Attempts, accept: str) -> requests.Response | PageFault:
    """Read any page with a limit, or return why there is none."""
    return _read_or_fault(url, accept, attempts, _read_page)


def lacks(project: str) -> PageFault:
    """Return the fault of an index that has no page of a project."""
    return PageFault(f"has no {project}", "missing")


def answered(status: int) -> PageFault:
    """Return the fault of a server that answered with an error status."""
    return PageFault(f"answered {status}", "missing" if status in _GONE else "unasked")


def _read_or_fault(  # noqa: PLR0911 - one for each way in which a server can fail
    url: str, about: str, attempts: Attempts, read: Callable[[str, str, Attempts], Read]
) -> Read | PageFault:
    import pypi_simple  # noqa: PLC0415 - slow, and builds read no pages

    try:
        return read(url, about, attempts)
    except pypi_simple.NoSuchProjectError as problem:
        return lacks(problem.project)
    except requests.HTTPError as problem:
        return answered(problem.response.status_code)
    except requests.JSONDecodeError:
        return _NO_INDEX
    except requests.RequestException as problem:
        slow = f" ({SLOW_FIX})" if isinstance(problem, requests.Timeout) else ""
        return PageFault(f"{unreachable(url, problem, fix='').why}{slow}", "unasked")
    except TimeoutError:
        limit = attempts.retry_policy.limit
        why = f"sent no complete page within {limit:.0f} seconds ({SLOW_FIX})"
        return PageFault(why, "unasked")
    except _PageError as problem:
        return PageFault(f"{problem}; none has that", "unreadable")
    except OSError as problem:
        is_missing = isinstance(problem, FileNotFoundError | NotADirectoryError)
        why = f"can't be read: {problem.strerror}"
        return PageFault(why, "missing" if is_missing else "unasked")
    except (pypi_simple.UnsupportedRepoVersionError, ValueError, RecursionError):
        return _NO_INDEX


def _read_project_page(index: str, project: str, attempts: Attempts) -> pypi_simple.ProjectPage:
    import pypi_simple  # noqa: PLC0415 - slow, and builds read no pages

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
        # A session's own time-outs don't end a slow transfer.
        return run_within(attempts.left, partial(_download, url, accept, attempts), attempts.stop)
    with open_file(local_path(url)) as stream:
        content = stream.read(limits.INDEX_PAGE + 1)
    kind = "application/json" if url.endswith(".json") else "text/html"
    return _page(url, content, accept, CaseInsensitiveDict({"Content-Type": kind}))


def _download(url: str, accept: str, attempts: Attempts) -> requests.Response:
    with (
        open_session(attempts) as session,
        session.get(url, headers={"Accept": accept}, stream=True) as response,
    ):
        response.raise_for_status()
        content = bytearray()
        for piece in response.iter_content(_CHUNK):
            content += piece
            if len(content) > limits.INDEX_PAGE:
                break
        return _page(response.url, content, accept, response.headers)


def _page(
    url: str, content: bytes | bytearray, accept: str, headers: CaseInsensitiveDict[str]
) -> requests.Response:
    """Return a page as a response, after checking its cost in memory."""
    is_html = "html" in accept and "json" not in headers.get("Content-Type", "")
    if len(content) > limits.INDEX_PAGE:
        raise _PageError(f"sent a page of more than {show_size(limits.INDEX_PAGE)}")
    if content.count(b">" if is_html else b"{") > limits.INDEX_TAGS:
        raise _PageError(f"sent a page with more than {limits.INDEX_TAGS:,} tags or objects")
    if is_html and max(map(len, content.split(b">"))) > limits.INDEX_TAG:
        raise _PageError(f"sent a page with a tag of more than {show_size(limits.INDEX_TAG)}")
    response = requests.Response()
    response.status_code = HTTPStatus.OK
    response.url, response.headers = url, headers
    response.raw = BytesIO(bytes(content))
    return response


class _PageError(ValueError):
    """A page of an index is refused; the message follows the index's name."""


def link_fault(url: str, index: str) -> str:
    """Return why an address that a page names isn't used; empty: it may be."""
    try:
        why = _fault(urlsplit(url), urlsplit(index), url, index)
    except ValueError as problem:  # of a port, or of brackets
        why = f"it is no address ({problem})"
    return f"it names {redact_url(url)!r}: {why}" if why else ""


def with_credentials(url: str, index: str) -> str:
    """Return a file's address with the index's user and password, where both are on one host."""
    try:
        file, page = urlsplit(url), urlsplit(index)
    except ValueError:  # `link_fault` reports it
        return url
    secret, _, host = page.netloc.rpartition("@")
    if secret and (file.scheme, file.netloc) == (page.scheme, host):
        return urlunsplit(file._replace(netloc=page.netloc))
    return url


def beside(url: str, suffix: str) -> str:
    """Return an address with a suffix to its file name, such as `.metadata`, without query."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path}{suffix}", query="", fragment=""))


def _fault(link: SplitResult, page: SplitResult, url: str, index: str) -> str:
    _ = link.port  # a ValueError where it is none
    if "\\" in url or any(map(_is_odd, {*link.path.split("/")} - {*page.path.split("/")})):
        return "its path hides a slash, leads upwards or has control characters"
    if page.scheme == "file":
        return _fault_in_folder(link, url, index)
    if link.scheme not in _WEB or not link.hostname:
        return "a page on a server may only name http and https"
    if page.scheme == "https" and link.scheme == "http" and not _is_trusted(link):
        return f"a page of https may not lead to http; PIP_TRUSTED_HOST={link.hostname} allows it"
    return ""


def _is_odd(part: str) -> bool:
    decoded = unquote(part)
    return decoded in {".", ".."} or bool(_ODD.search(decoded))


def _fault_in_folder(link: SplitResult, url: str, index: str) -> str:
    if link.scheme in _WEB and link.hostname:
        return ""  # wheels may be on a server: `index --base-url`
    if not is_local(url) or link.netloc:
        return "a page in a folder may only name its own files, http and https"
    tree = tree_of(index)
    if not local_path(url).resolve().is_relative_to(tree):
        return f"a page in a folder may only name files in it, and this one is not in {tree}"
    return ""


def tree_of(index: str) -> Path:
    """Return the folder that an index in a folder may name files of: of wheels, or of a site."""
    folder = local_path(index).resolve()
    folder = folder if folder.is_dir() else folder.parent
    if folder.parent.name == SIMPLE:  # a project's page
        folder = folder.parent
    if folder.name == SIMPLE:
        folder = folder.parent
        if _CUDA_FOLDER.fullmatch(folder.name) and (folder.parent / SIMPLE).is_dir():
            folder = folder.parent
    return folder


def _is_trusted(link: SplitResult) -> bool:
    hosts = " ".join(os.environ.get(name, "") for name in _TRUSTED_HOSTS)
    host = link.netloc.rpartition("@")[2]
    return bool({host, link.hostname} & {*hosts.replace(",", " ").split()})
