"""A program for conda-lock's environment, which prints what conda-lock reads in locks and sources.

`python conda_lock_reader.py REQUEST ANSWER`: the request holds `locks` and `sources`, lists of
paths, the answer what was read, by path.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from conda_lock.conda_lock import main as command_line
from conda_lock.content_hash import compute_content_hashes
from conda_lock.lockfile import parse_conda_lock_file
from conda_lock.src_parser import make_lock_spec
from conda_lock.virtual_package import virtual_package_repo_from_specification

PLATFORM = "linux-64"


def read_lock(path: Path) -> dict[str, Any]:
    lock = parse_conda_lock_file(path).to_v1()
    return {
        "channels": [channel.url for channel in lock.metadata.channels],
        "digest": lock.metadata.content_hash[PLATFORM],
        "stated": lock.metadata.custom_metadata,
        "packages": {
            package.name: {
                "version": package.version,
                "url": package.url,
                "sha256": package.hash.sha256 or "",
                "md5": package.hash.md5 or "",
                "depends": list(package.dependencies.items()),
            }
            for package in lock.package
        },
        "explicit": render(path),
    }


def render(path: Path) -> list[str]:
    """Return address and MD5 of each file, as `conda-lock render -k explicit` writes them."""
    with tempfile.TemporaryDirectory() as folder:
        template = f"{folder}/{{platform}}.lock"
        words = ("render", "-k", "explicit", "-p", PLATFORM, "--filename-template", template)
        command_line([*words, str(path)], standalone_mode=False)
        _, _, lines = Path(folder, f"{PLATFORM}.lock").read_text().partition("@EXPLICIT\n")
    return lines.split()


def read_source(path: Path) -> dict[str, Any]:
    try:
        spec = make_lock_spec(src_files=[path], mapping_url="")
        system = virtual_package_repo_from_specification(path.with_name("virtual-packages.yml"))
        digest = compute_content_hashes(spec, system)[PLATFORM]
    except Exception as problem:  # noqa: BLE001 - whatever its parsers raise
        return {"refused": str(problem)}
    dependencies = spec.dependencies[PLATFORM]
    return {
        "digest": digest,
        "dependencies": [
            [part.name, part.version, part.build or "", part.conda_channel or ""]
            for part in dependencies
        ],
    }


if __name__ == "__main__":
    request, answer = map(Path, sys.argv[1:])
    content = json.loads(request.read_text())
    output = {path: read_lock(Path(path)) for path in content["locks"]}
    output |= {path: read_source(Path(path)) for path in content["sources"]}
    answer.write_text(json.dumps(output))
