"""The component table against every wheel that it was read from: 119 of them, 18 GB, 12 minutes."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from cuwheel.base.fetch.download import PinnedFile, download
from cuwheel.base.fetch.indexes.indexes import configured_indexes, find_wheels
from cuwheel.base.fetch.indexes.offers import IndexFile
from cuwheel.base.formats.wheel.metadata import is_library
from cuwheel.base.system.console import Console
from cuwheel.base.system.quantities import GIB
from cuwheel.check.cuda.components import KNOWN_COMPONENTS
from tests.support.check.component_facts import faults_of, unnamed_in, unrequired_by

pytestmark = pytest.mark.nightly

# Distribution and its releases, oldest first: `nvidia-cublas 13.1.0.3, 13.10.0.20`; of TensorRT
# none, whose wheels aren't on this index.
_READ = {
    found.source: found.source.partition(" ")[2].split(", ")
    for found in KNOWN_COMPONENTS
    if found.cuda is not None and " " in found.source
}
_RELEASES = [
    (source.partition(" ")[0], version, version == releases[-1])
    for source, releases in _READ.items()
    for version in releases
]


def is_fitting(file: IndexFile, version: str) -> bool:
    try:
        _, release, _, tags = parse_wheel_filename(file.name)
    except InvalidWheelFilename:
        return False
    is_linux = any("manylinux" in tag.platform and "x86_64" in tag.platform for tag in tags)
    return is_linux and release == Version(version)


def unpack(name: str, version: str, folder: Path) -> Path:
    """A folder with the libraries and the metadata of a wheel on the index."""
    offered = find_wheels(name, indexes=configured_indexes(os.environ))
    file = next(file for file in offered if is_fitting(file, version))
    wheel = folder / file.name
    wanted = PinnedFile(name=file.name, sha256=file.sha256, max_size=GIB)
    download(wanted, wheel, file.url, console=Console())
    with zipfile.ZipFile(wheel) as archive:
        names = [
            name for name in archive.namelist() if is_library(name) or name.endswith("METADATA")
        ]
        archive.extractall(folder / "site", names)
    wheel.unlink()
    return folder / "site"


@pytest.mark.parametrize(("name", "version", "is_last"), _RELEASES)
def test_table_agrees_with_wheel(name: str, version: str, *, is_last: bool) -> None:
    with TemporaryDirectory() as folder:  # of up to 1.5 GB, so not kept as pytest keeps its own
        site = unpack(name, version, Path(folder))
        [metadata] = site.glob("*.dist-info/METADATA")
        lines = metadata.read_text().splitlines()
        requires = [line[15:] for line in lines if line.startswith("Requires-Dist: ")]

        assert faults_of(site, name, version) == []
        assert unrequired_by(requires, name, version) == set()
        assert not is_last or unnamed_in(site, name, version) == []
