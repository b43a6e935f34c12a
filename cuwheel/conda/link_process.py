"""Unpack conda packages and link them into a folder: a program of its own, which can be ended.

py-rattler works in threads that go on after an interrupt, so what they write can't be cleaned up by
the process that they run in. `install` starts this one and hands it a file with the request.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import rattler

from cuwheel.system.whole_files import read_text

REFUSED = 3  # exit status: rattler couldn't; Python itself ends with 1 or 2 when it can't start


@dataclass(frozen=True, kw_only=True)
class Unpackable:
    """A package whose file is on this machine.

    Attributes:
        name: of the package.
        version: its version.
        build: build string.
        subdir: `linux-64` or `noarch`.
        file_name: as the channel calls it.
        channel: the channel's address.
        sha256: of the file; rattler checks by it whether it has unpacked this very file.
        url: `file://` address of the file.
    """

    name: str
    version: str
    build: str
    subdir: str
    file_name: str
    channel: str
    sha256: str
    url: str


def write_request(
    path: Path, packages: list[Unpackable], *, aside: Path, final: Path, cache: Path
) -> None:
    """Write what this program reads.

    Args:
        path: the file.
        packages: what to install.
        aside: the empty folder to fill.
        final: the name that it will get; packages hold their own path in some files.
        cache: where rattler keeps packages unpacked.
    """
    request = {
        "packages": [asdict(package) for package in packages],
        "aside": str(aside),
        "final": str(final),
        "cache": str(cache),
    }
    path.write_text(json.dumps(request))


def main(request: Path) -> int:
    """Do what a request contains; no script of a package is run.

    Returns:
        0, or `REFUSED` with rattler's words on standard output.
    """
    content = json.loads(read_text(request))
    records = [_record(Unpackable(**package)) for package in content["packages"]]
    try:
        asyncio.run(
            rattler.install(
                records,
                content["aside"],
                cache_dir=Path(content["cache"]),
                installed_packages=[],
                execute_link_scripts=False,
                show_progress=False,
                alternative_target_prefix=content["final"],
            )
        )
    except Exception as problem:  # noqa: BLE001 - rattler raises classes of its own, and plain ones
        print(" ".join(str(problem).split()))  # noqa: T201 - its answer
        return REFUSED
    return 0


def _record(package: Unpackable) -> rattler.RepoDataRecord:
    record = rattler.PackageRecord(
        name=package.name,
        version=package.version,
        build=rattler.BuildString(package.build),
        build_number=0,
        subdir=package.subdir,
        arch=None,
        platform=None,
        sha256=bytes.fromhex(package.sha256),
    )
    return rattler.RepoDataRecord(record, package.file_name, package.url, package.channel)


if __name__ == "__main__":
    status = main(Path(sys.argv[1]))
    sys.stdout.flush()
    # Without Python's own end: a thread of rattler's that still lets go of the interpreter would
    # crash in it ("PyGILState_Release: thread state must be current"), one time in twenty.
    os._exit(status)
