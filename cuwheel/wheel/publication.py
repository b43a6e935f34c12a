"""What a folder has published, under which names and with which bytes: neither ever changes.

A wheel with other bytes gets the next build tag, the number behind the version in its file name,
of which installers take the highest (the specification "Binary distribution format", PEP 427).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cuwheel import limits
from cuwheel.system.files import (
    PARTS,
    file_lock,
    remove_parts,
    sha256_of_file,
)
from cuwheel.system.regular_files import read_json
from cuwheel.system.whole_files import read_text
from cuwheel.wheel.staged_files import has_staged, remove_staged

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path


SIMPLE = "simple"  # folder of the index
STATEMENT = ".provenance.json"  # behind the wheel's name
REBUILT = ".rebuild-"  # likewise, before the id of the key of who has rebuilt it


def statement_of(wheel: Path) -> Path:
    """Where the statement of a published wheel lies."""
    return wheel.with_name(f"{wheel.name}{STATEMENT}")


def publishing(dist: Path) -> AbstractContextManager[None]:
    """Hold what lets one build at a time change a folder of wheels."""
    return file_lock(dist / ".publish.lock")


def index_lock(dist: Path) -> AbstractContextManager[None]:
    """Hold what lets one process at a time write the index of a folder."""
    return file_lock(dist / f".{SIMPLE}.lock")


def build_tag_of(name: str) -> int:
    """The number of a wheel's build tag; 0 where its name has none.

    Raises:
        InvalidWheelFilename: it is no wheel's name.
    """
    build = parse_wheel_filename(name)[2]
    return build[0] if build else 0


def newest_build(dist: Path, name: str) -> int | None:
    """The highest build tag that is published of a wheel; None: there is no such wheel.

    Args:
        dist: the folder; needn't be there.
        name: of the wheel, with any build tag or none.
    """
    project, version, _, tags = parse_wheel_filename(name)
    found = []
    for path in (*dist.glob("*.whl"), *dist.glob(f"*.whl{STATEMENT}")):
        with contextlib.suppress(InvalidWheelFilename):
            other, release, build, others = parse_wheel_filename(path.name.removesuffix(STATEMENT))
            if (other, release, others) == (project, version, tags):
                found.append(build[0] if build else 0)
    return max(found, default=None)


def published_sha256(wheel: Path) -> str:
    """SHA-256 that was published under a name; empty: none was.

    The statement says it, also of a file that is gone or was changed since.
    """
    try:
        [subject] = (read_json(statement_of(wheel)) or {})["subject"]
        return str(subject["digest"]["sha256"])
    except (ValueError, KeyError, TypeError):
        return sha256_of_file(wheel) if wheel.is_file() else ""


def missing_beside(wheel: Path, sha256: str) -> tuple[str, ...]:
    """What belongs to a published wheel and isn't there: its statement, or its place in the index.

    Args:
        wheel: the file.
        sha256: of it.
    """
    project = parse_wheel_filename(wheel.name)[0]
    page, projects = (f"{SIMPLE}/{name}index.html" for name in (f"{project}/", ""))
    metadata = f"{wheel.name}.metadata"  # PEP 658: the page promises it
    lists = {
        page: f"#sha256={sha256}",
        projects: f'"{project}/index.html"',
        metadata: "Metadata-Version:",
        statement_of(wheel).name: sha256,
    }
    return tuple(name for name, text in lists.items() if not _holds(wheel.parent / name, text))


def _holds(path: Path, text: str) -> bool:
    try:
        return text in read_text(path, limit=limits.INDEX_PAGE, errors="replace")
    except OSError:
        return False


def remove_unpublished(dist: Path) -> None:
    """Remove what killed builds left in a folder of wheels; a build that publishes now goes on."""
    # A pattern "*/" finds files too before Python 3.11.
    projects = (path for path in (dist / SIMPLE).glob("*") if path.is_dir())
    folders = (dist, dist / SIMPLE, *projects)
    if not any(has_staged(one) or [*one.glob(PARTS)] for one in folders):
        return
    with publishing(dist), index_lock(dist):
        for folder in folders:
            remove_parts(folder)
            remove_staged(folder)
