"""Foreign folders of wheels, with files that could make `index` wait or fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import CuwheelError, IrregularFileError, UsageError, WheelIndexError
from cuwheel.base.system.console import Console
from cuwheel.build.wheelhouse.folder_index import write_index
from cuwheel.build.wheelhouse.yanks import YANKS
from cuwheel.publish.index.check.walk import CheckRequest, check_indexes
from cuwheel.publish.index.site import SiteRequest, write_site
from tests.support.packages.toy_wheel import add_wheel
from tests.support.servers.http import Site, serving

WHEEL = "toy-1.0-py3-none-any.whl"
OTHER = "b-1.0-py3-none-any.whl"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    add_wheel(tmp_path / "dist", "1.0")
    return tmp_path / "dist"


_TRAPS: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to("/etc/hostname"),
    "brackets": lambda path: path.write_text("[" * 200_000),
    "surrogate": lambda path: path.write_text('{"a": "\\ud800"}'),
}


def publish(dist: Path) -> None:
    cache, site = dist.parent / "cache", dist.parent / "site"
    write_site(SiteRequest(folders=(dist,), site=site, cache=cache))


@pytest.mark.parametrize("make", _TRAPS.values(), ids=_TRAPS)
@pytest.mark.parametrize("write", [write_index, publish])
@pytest.mark.parametrize(("name", "error"), [(OTHER, WheelIndexError), (YANKS, UsageError)])
def test_trap_in_place_of_wheel_or_yanks_is_refused(
    dist: Path,
    make: Callable[[Path], object],
    write: Callable[[Path], object],
    name: str,
    error: type[CuwheelError],
) -> None:
    make(dist / name)

    with pytest.raises(error) as caught:
        write(dist)

    assert name in f"{caught.value.what} {caught.value.why}"


@pytest.mark.parametrize("make", _TRAPS.values(), ids=_TRAPS)
@pytest.mark.parametrize("suffix", [".provenance.json", ".provenance"])
def test_trap_next_to_a_wheel_is_never_published(
    dist: Path, make: Callable[[Path], object], suffix: str
) -> None:
    make(trap := dist / f"{WHEEL}{suffix}")

    try:
        publish(dist)
    except (IrregularFileError, CuwheelError):
        pass
    else:
        assert trap.is_file()
        assert not trap.is_symlink()
    write_index(dist)


def test_check_reads_no_file_of_this_machine_for_a_server(dist: Path) -> None:
    page = f"<a href='{(dist / WHEEL).as_uri()}'>{WHEEL}</a>"
    site = Site(files={"/simple/": b"<a href='toy/'>toy</a>", "/simple/toy/": page.encode()})

    with serving(site):
        request = CheckRequest(places=(site.url("/simple/"),))
        result = check_indexes(request, Console())

    assert (result.counts["link"], result.files) == (1, 0)
