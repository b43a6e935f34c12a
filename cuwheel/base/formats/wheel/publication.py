"""Published files of a folder: their names and bytes never change.

A wheel with other bytes gets the next build tag, the number behind the version in its file name,
of which installers take the highest (the specification "Binary distribution format", PEP 427).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from cuwheel.base import limits
from cuwheel.base.system.files import PARTS, file_lock, remove_parts, sha256_of_file
from cuwheel.base.system.folders.output_folder import FolderKind, is_part
from cuwheel.base.system.folders.staged_files import has_staged, remove_staged
from cuwheel.base.system.regular_files import read_json, read_text

# Reason to withdraw a wheel with a mark where one without is listed, or a newer one with another.
MARKED = "built from a source given with --source; name its full version to install it"
_MARK = "source"  # in a local version, before what identifies the source
SIMPLE = "simple"  # folder of the index
STATEMENT = ".provenance.json"  # behind the wheel's name
ATTESTATIONS = ".provenance"  # PEP 740: likewise; added by signers
REBUILT = ".rebuild-"  # likewise, before the id of the rebuilder's key
_YANKS = "yanked.json"
_MATRIX = "matrix.html"
_OWN = frozenset({SIMPLE, ".cuwheel", _YANKS, _MATRIX})  # cuwheel's other files
_SOURCES = (".tar.gz", ".zip")  # ends of sdists' names: `python -m build` puts them there too


def mark_source(version: str, mark: str) -> str:
    """Return a version with a local part for an unpinned source (`SourceTree.mark`), if any."""
    return f"{version}{'.' if '+' in version else '+'}{_MARK}.{mark}" if mark else version


def split_mark(version: Version) -> tuple[str, str]:
    """Return a version's local part without the mark of `mark_source`, and the mark."""
    local, sign, mark = f".{version.local or ''}".partition(f".{_MARK}.")
    return local.removeprefix("."), mark if sign else ""


def statement_of(wheel: Path) -> Path:
    """Return the path of a published wheel's statement."""
    return wheel.with_name(f"{wheel.name}{STATEMENT}")


def published_texts(wheels: Iterable[Path]) -> Iterator[Path]:
    """Yield files that are published with wheels, byte for byte: statements and attestations."""
    names = {(wheel.parent, wheel.name) for wheel in wheels}
    for folder in {folder for folder, _ in names}:
        for path in sorted(folder.iterdir()):
            wheel, mark, _ = path.name.partition(".whl")
            rest = path.name.removeprefix(f"{wheel}{mark}")
            is_text = rest in {STATEMENT, ATTESTATIONS} or rest.startswith(REBUILT)
            if is_text and (folder, f"{wheel}{mark}") in names and not path.is_dir():
                yield path  # a FIFO too: readers refuse it


def is_wheel_file(path: Path) -> bool:
    """Return True if a name is a wheel's or belongs to one: statement, METADATA, yanks."""
    name = path.name
    belongs = ".whl" in name or name.endswith("-variants.json") or name == _YANKS or is_part(name)
    return belongs and not path.is_dir()


def _is_accepted(path: Path) -> bool:
    """Return True for a file of a folder of wheels of any origin: none of these is replaced."""
    return path.name in _OWN or path.name.endswith(_SOURCES) or is_wheel_file(path)


WHEEL_FOLDER = FolderKind(
    name="wheels",
    what="a folder of wheels",
    accepts=_is_accepted,
    names=re.compile(re.escape(_MATRIX)),
)


def publishing(dist: Path) -> AbstractContextManager[None]:
    """Hold the lock that lets one build at a time change a folder of wheels."""
    return file_lock(dist / ".publish.lock")


def index_lock(dist: Path) -> AbstractContextManager[None]:
    """Hold the lock that lets one process at a time write the index of a folder."""
    return file_lock(dist / f".{SIMPLE}.lock")


def build_tag_of(name: str) -> int:
    """Return the number of a wheel's build tag; 0 where its name has none."""
    build = parse_wheel_filename(name)[2]
    return build[0] if build else 0


def newest_build(dist: Path, name: str) -> int | None:
    """Return the highest published build tag of a wheel; None: there is no such wheel."""
    project, version, _, tags = parse_wheel_filename(name)
    numbers = []
    for path in (*dist.glob("*.whl"), *dist.glob(f"*.whl{STATEMENT}")):
        with contextlib.suppress(InvalidWheelFilename):
            other, release, build, others = parse_wheel_filename(path.name.removesuffix(STATEMENT))
            if (other, release, others) == (project, version, tags):
                numbers.append(build[0] if build else 0)
    return max(numbers, default=None)


def published_sha256(wheel: Path) -> str:
    """Return the SHA-256 that was published under a name; empty: none was.

    The statement has it, also of a file that is gone or was changed since.
    """
    try:
        [subject] = (read_json(statement_of(wheel)) or {})["subject"]
        return str(subject["digest"]["sha256"])
    except (ValueError, KeyError, TypeError):
        return sha256_of_file(wheel) if wheel.is_file() else ""


def missing_beside(wheel: Path, sha256: str) -> tuple[str, ...]:
    """Return files that a published wheel lacks: statement, METADATA, pages of the index."""
    project = parse_wheel_filename(wheel.name)[0]
    page, projects = (f"{SIMPLE}/{name}index.html" for name in (f"{project}/", ""))
    metadata = f"{wheel.name}.metadata"  # PEP 658: the page promises it
    lists = {
        page: f"#sha256={sha256}",
        projects: f'"{project}/index.html"',
        metadata: "Metadata-Version:",
        statement_of(wheel).name: sha256,
    }
    missing = []
    for name, text in lists.items():
        content = ""
        with contextlib.suppress(OSError):
            content = read_text(wheel.parent / name, limit=limits.INDEX_PAGE, errors="replace")
        if text not in content:
            missing.append(name)
    return tuple(missing)


def remove_unpublished(dist: Path) -> None:
    """Remove leftovers of killed builds in a folder of wheels; a running publication continues."""
    # A pattern "*/" matches files too before Python 3.11.
    projects = (path for path in (dist / SIMPLE).glob("*") if path.is_dir())
    folders = (dist, dist / SIMPLE, *projects)
    if not any(has_staged(folder) or [*folder.glob(PARTS)] for folder in folders):
        return
    with publishing(dist), index_lock(dist):
        for folder in folders:
            remove_parts(folder)
            remove_staged(folder)
