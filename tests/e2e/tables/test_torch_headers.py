"""What makes one compile serve every Python: PyTorch's wheels have the same headers for each."""

from __future__ import annotations

import io
import os
import zipfile
from typing import TYPE_CHECKING

import pytest
import requests

from cuwheel.base.fetch.indexes.indexes import configured_indexes, find_wheels
from tests.support.requirements import lack

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

pytestmark = pytest.mark.nightly

_RELEASE = "torch-2.11.0"
_PYTHONS = ("cp310", "cp311", "cp312", "cp313")
_BLOCK = 1 << 20  # a wheel's list of files has 2 MB


class _Remote(io.RawIOBase):
    """A file on a server, read in pieces: the wheels have 530 MB each."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._position = 0
        answer = requests.head(url, allow_redirects=True, timeout=30)
        self._size = int(answer.headers["Content-Length"])

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        self._position = start[whence] + offset
        return self._position

    def readinto(self, into: WriteableBuffer) -> int:
        view = memoryview(into)
        last = min(self._position + len(view), self._size) - 1
        if last < self._position:
            return 0
        span = {"Range": f"bytes={self._position}-{last}"}
        answer = requests.get(self._url, headers=span, timeout=60)
        if answer.status_code != requests.codes.partial_content:
            lack(
                "ranges", "this index sends whole files only", "that PyTorch's headers are one set"
            )
        view[: len(answer.content)] = answer.content
        self._position += len(answer.content)
        return len(answer.content)


def test_pytorch_has_the_same_headers_for_every_python() -> None:
    offered = find_wheels("torch", indexes=configured_indexes(os.environ))
    trees = {}
    for python in _PYTHONS:
        start = f"{_RELEASE}-{python}-{python}-manylinux"
        [file] = (one for one in offered if one.name.startswith(start) and "x86_64" in one.name)
        with zipfile.ZipFile(io.BufferedReader(_Remote(file.url), _BLOCK)) as wheel:
            trees[python] = {
                entry.filename: (entry.CRC, entry.file_size)
                for entry in wheel.infolist()
                if entry.filename.startswith("torch/include/")
            }

    first, *others = trees.values()
    assert len(first) > 9000
    assert all(tree == first for tree in others)
