"""Have conda-lock check and render a lock: a program, for the environment that conda-lock is in.

`python -m cuwheel.conda.conda_lock_process REQUEST`: a JSON file, and so is its answer.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from conda_lock import content_hash, lockfile, src_parser, virtual_package
from conda_lock.lockfile.v1.models import Lockfile
from conda_lock.lockfile.v2prelim.models import lockfile_v1_to_v2

from cuwheel.conda.records import Rendered, RenderRequest
from cuwheel.system.whole_files import read_text


def main(path: Path) -> None:
    """Do what a request contains, and write the answer where it says."""
    request = RenderRequest(**json.loads(read_text(path)))
    try:
        digest = _digest(Path(request.source), request.platform) if request.source else ""
        rendered = Rendered(text=_render(request.document), digest=digest)
    except OSError:  # a full disk, for one: it writes files of its own
        raise
    except Exception as problem:  # noqa: BLE001 - whatever its YAML and pydantic parsers raise
        rendered = Rendered(refused=" ".join(str(problem).split()))
    Path(request.answer).write_text(json.dumps(asdict(rendered)))


def _render(document: dict[str, Any]) -> str:
    content = lockfile_v1_to_v2(Lockfile.model_validate(document))
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "conda-lock.yml"
        lockfile.write_conda_lock_file(content, plain, metadata_choices=(), include_help_text=False)
        lockfile.parse_conda_lock_file(plain)
        return read_text(plain)


def _digest(source: Path, platform: str) -> str:
    spec = src_parser.make_lock_spec(src_files=[source], mapping_url="")
    system = source.with_name("virtual-packages.yml")
    fake = virtual_package.virtual_package_repo_from_specification(system)
    digest: str = content_hash.compute_content_hashes(spec, fake)[platform]
    return digest


if __name__ == "__main__":
    main(Path(sys.argv[1]))
