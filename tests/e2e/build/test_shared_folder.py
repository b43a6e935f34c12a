"""Two machines on one network disk: two mounts of a folder, each with file attributes of its own.

bindfs stands in for the disk's client: it is a file system of its own for each, keeps what it knows
of a file for a second, and hands locks on to the folder behind, as NFS does to its server.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.system.files import sha256_of_file
from tests.support.engine import Engine, finish
from tests.support.requirements import require

pytestmark = pytest.mark.e2e

# Arguments: the folder behind, where it is mounted, then what runs on this machine.
_MACHINE = """
back=$1; shared=$2; shift 2
bindfs -f --multithreaded --enable-lock-forwarding "$back" "$shared" & client=$!
until mountpoint -q "$shared"; do sleep 0.05; done
"$@"; status=$?
umount "$shared"; wait $client
exit $status
"""


@pytest.fixture
def machine(engine: Engine, tmp_path: Path) -> Engine:
    """The engine on a machine whose cache, work and dist are on the network disk."""
    require("bindfs", "builds on several machines with one cache")
    back, shared = tmp_path / "back", tmp_path / "shared"
    for folder in (back, shared):
        folder.mkdir()
    alone = ("unshare", "--user", "--map-root-user", "--mount")
    return dataclasses.replace(
        engine,
        cache=shared / "cache",
        work=shared / "work",
        dist=shared / "dist",
        within=(*alone, "sh", "-c", _MACHINE, "sh", str(back), str(shared)),
    )


@pytest.mark.nightly
def test_two_machines_fill_one_cache(
    machine: Engine, built: Callable[[str], Engine], tmp_path: Path
) -> None:
    """All is empty, and both want the same toolchain, packages, compile cache and index."""
    names = ("tiny-capi", "tiny-skbuild")

    with machine.start(names[0]) as one, machine.start(names[1]) as other:
        done = [finish(one), finish(other)]

    assert [outcome.status for outcome in done] == [0, 0], done
    assert any("waiting" in outcome.output for outcome in done)
    made = (tmp_path / "back" / "cache" / "toolchains").glob("cuda130-*")
    assert len([path for path in made if path.is_dir()]) == 1
    expected = {sha256_of_file(built(name).wheels()[0]) for name in names}
    found = (tmp_path / "back" / "dist").glob("*.whl")
    assert {sha256_of_file(wheel) for wheel in found} == expected
    projects = (tmp_path / "back" / "dist" / "simple").glob("tiny-*")
    assert sorted(path.name for path in projects) == sorted(names)


@pytest.mark.nightly
def test_two_machines_build_a_target_one_after_the_other(
    machine: Engine, built: Callable[[str], Engine], shared_cache: Path, tmp_path: Path
) -> None:
    here = dataclasses.replace(machine, cache=shared_cache)

    with here.start("tiny-capi") as one, here.start("tiny-capi") as other:
        done = [finish(one), finish(other)]

    assert [outcome.status for outcome in done] == [0, 0], done
    assert sum("waiting" in outcome.output for outcome in done) == 1
    [wheel] = (tmp_path / "back" / "dist").glob("*.whl")
    assert sha256_of_file(wheel) == sha256_of_file(built("tiny-capi").wheels()[0])
