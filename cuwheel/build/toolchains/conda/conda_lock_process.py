"""A program for conda-lock's environment: it renders a lock with conda-lock, and reads it again.

`python -m ….conda_lock_process DOCUMENT LOCK [SOURCE]`: a lock as JSON, the file to write, and the
`environment.yml` that it was solved from, whose content hash it gets.
"""

from __future__ import annotations

import sys
from pathlib import Path

from conda_lock import content_hash, lockfile, src_parser, virtual_package
from conda_lock.lockfile.v1.models import Lockfile
from conda_lock.lockfile.v2prelim.models import lockfile_v1_to_v2

from cuwheel.base.system.regular_files import parse_json, read_text

REFUSED = 3  # exit status, as `write` knows it; Python itself ends with 1 or 2


def main(document: Path, lock: Path, *sources: Path) -> int:
    """Write the lock.

    Returns:
        0, or `REFUSED` with conda-lock's message on standard output.
    """
    content = parse_json(read_text(document))
    try:
        for source in sources:
            spec = src_parser.make_lock_spec(src_files=[source], mapping_url="")
            system = source.with_name("virtual-packages.yml")
            fake = virtual_package.virtual_package_repo_from_specification(system)
            digests = content_hash.compute_content_hashes(spec, fake)
            ours = content["metadata"]["content_hash"]
            ours.update({platform: digests[platform] for platform in ours})
        checked = lockfile_v1_to_v2(Lockfile.model_validate(content))
        lockfile.write_conda_lock_file(checked, lock, metadata_choices=(), include_help_text=False)
        lockfile.parse_conda_lock_file(lock)
    except OSError:  # a full disk, for one
        raise
    except Exception as problem:  # noqa: BLE001 - whatever its YAML and pydantic parsers raise
        print(" ".join(str(problem).split()))  # noqa: T201 - its answer
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
