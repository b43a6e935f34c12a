"""The table of PyTorch's exports against the small libraries of every release in it: 15 MB."""

from __future__ import annotations

import io
import os
import zipfile

import pytest

from cuwheel.base.fetch.indexes.indexes import configured_indexes, find_releases, find_wheels
from cuwheel.base.fetch.remote_file import open_remote
from cuwheel.base.formats.binaries.elf_symbols import Symbols
from cuwheel.check.cuda.torch_exports import is_kept, minor_of, torch_exports

pytestmark = pytest.mark.nightly

_SMALL = ("libc10.so", "libc10_cuda.so")


@pytest.mark.parametrize("release", torch_exports().releases)
def test_table_has_what_small_libraries_export(release: str) -> None:
    offered = find_wheels("torch", indexes=configured_indexes(os.environ))
    start, end = f"torch-{release}-", "x86_64.whl"
    file = next(one for one in offered if one.name.startswith(start) and one.name.endswith(end))

    with open_remote(file.url) as stream, zipfile.ZipFile(stream) as wheel:
        libraries = [io.BytesIO(wheel.read(f"torch/lib/{name}")) for name in _SMALL]
    exported = {name for one in libraries for name in Symbols(one).defined() if is_kept(name)}

    assert len(exported) > 100
    assert not [name for name in exported if release not in torch_exports().releases_with(name)]


def test_table_has_newest_minor_release() -> None:
    releases = find_releases("torch", indexes=configured_indexes(os.environ))
    newest = max(one.version for one in releases if one.is_final)

    assert minor_of(str(newest)) == minor_of(torch_exports().releases[-1])
