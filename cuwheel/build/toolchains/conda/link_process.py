"""A program that unpacks conda packages and links them into a folder, and that can be ended.

py-rattler works in threads that continue after an interrupt, so the process that runs them can't
clean up their files. `install` starts this program with a file of the request.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import rattler

from cuwheel.base.system.regular_files import parse_json, read_text
from cuwheel.build.toolchains.conda.lock_file import CondaPackage
from cuwheel.build.workspace.serialization import from_json

REFUSED = 3  # exit status: rattler couldn't; Python itself ends with 1 or 2 when it can't start


@dataclass(frozen=True, kw_only=True)
class LinkRequest:
    """The request that this program reads.

    Attributes:
        packages: with the SHA-256 of their files, by which rattler recognises what it has unpacked.
        files: of the packages, on this machine.
        prefix: the empty folder to fill.
        final: the name that it will get; packages hold their own path in some files.
    """

    packages: tuple[CondaPackage, ...]
    files: tuple[Path, ...]
    prefix: Path
    final: Path
    cache: Path


def main(path: Path) -> int:
    """Execute a request; no script of a package is run.

    Returns:
        0, or `REFUSED` with rattler's message on standard output.
    """
    request = from_json(LinkRequest, parse_json(read_text(path), is_own=True))
    try:
        asyncio.run(
            rattler.install(
                list(map(_record, request.packages, request.files)),
                request.prefix,
                cache_dir=request.cache,
                installed_packages=[],
                execute_link_scripts=False,
                show_progress=False,
                alternative_target_prefix=request.final,
            )
        )
    except Exception as problem:  # noqa: BLE001 - rattler raises classes of its own, and plain ones
        print(" ".join(str(problem).split()))  # noqa: T201 - its answer
        return REFUSED
    return 0


def _record(package: CondaPackage, file: Path) -> rattler.RepoDataRecord:
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
    return rattler.RepoDataRecord(record, package.file_name, file.as_uri(), package.channel)


if __name__ == "__main__":
    status = main(Path(sys.argv[1]))
    sys.stdout.flush()
    # Without Python's own shutdown: a thread of rattler's that still releases the interpreter would
    # crash in it ("PyGILState_Release: thread state must be current"), one time in twenty.
    os._exit(status)
