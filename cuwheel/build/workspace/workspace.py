"""The folders that a build reads and writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.folders.output_folder import (
    FolderKind,
    claim,
    has_marker,
    make_empty,
)
from cuwheel.build.workspace.records import RECORDS
from cuwheel.build.workspace.serialization import Artefact, read_record, to_json

# Names of a build at the top of its work folder; anything else there is a user's.
WORK_NAMES = frozenset(
    {"run.json", "provenance.json", "stages", "logs", "profile", ".commit"}
    | {"source", "resources", "patched", "tree", "home", "tmp", "cuda", "launcher", "packages"}
    | {"cache", "events", "sockets", "imported", "built", "repair", "repaired", "smoke"}
    | {"environment.cfg", "published", "target-python", "target-libraries"}
)


WORK_FOLDER = FolderKind(name="work", what="the work folder of a build")

# Folders below `work/` of a verification, a rebuild or Slurm's jobs.
SCRATCH_FOLDER = FolderKind(name="scratch", what="a folder of intermediate files of cuwheel")


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """The folders of one target's build, and the records that its stages leave.

    Attributes:
        work: this target's own folder; a new build removes the last one's files.
        checked: folders of the cache that this process has found whole, with the facts about each:
            the builds of one command check a toolchain or an environment once.
        shows_records: False hides the records, which are those of an earlier run.
    """

    cache: Path
    work: Path
    dist: Path
    console: Console
    caller: Caller = field(compare=False, repr=False)
    checked: dict[Path, Any] = field(default_factory=dict, compare=False, repr=False)
    shows_records: bool = field(default=True, compare=False, repr=False)

    @property
    def environ(self) -> Mapping[str, str]:
        """The caller's variables."""
        return self.caller.environ

    @property
    def folders(self) -> tuple[Path, ...]:
        """Its folders and its lock; inside of a source tree they are no part of the source."""
        return tuple(path.absolute() for path in (self.cache, self.work, self.lock, self.dist))

    @property
    def lock(self) -> Path:
        """The lock of the work folder, next to it, so that the folder can be removed."""
        return self.work.with_name(f"{self.work.name}.lock")

    def folder(self, name: str) -> Path:
        """Make a folder of the work folder, if it isn't there."""
        self.claim()
        path = self.work / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def claim(self) -> None:
        """Make the work folder, if it isn't there; check that it is cuwheel's.

        Raises:
            UsageError: it holds other files.
        """
        if not has_marker(self.work, WORK_FOLDER):
            claim(self.work, WORK_FOLDER)

    def clear(self, *, keep: Collection[str] = ()) -> None:
        """Remove the files of builds from the work folder.

        Raises:
            UsageError: it isn't cuwheel's.
        """
        make_empty(self.work, WORK_FOLDER, WORK_NAMES.difference(keep))

    def log_of(self, folder: Path) -> Path:
        """Return the path of the log of a folder of the cache, in a folder that is there."""
        logs = self.cache / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        return logs / f"{folder.name}.log"

    @property
    def log_folder(self) -> Path:
        """The folder of the logs."""
        return self.work / "logs"

    def log(self, stage: str) -> Path:
        """Return the path of a stage's log, in a folder that is there."""
        return self.folder("logs") / f"{stage}.log"

    def record_path(self, stage: str) -> Path:
        """Return the path of a stage's record."""
        return self.work / "stages" / f"{stage}.json"

    def save(self, stage: str, record: object) -> None:
        """Keep the record of a stage, for the stages after it and for a later run."""
        self.claim()
        write_atomically(self.record_path(stage), to_json(record))

    def has(self, stage: str) -> bool:
        """Return True if a stage has run to its end in this work folder, with a whole record."""
        return self.shows_records and self._read(stage, RECORDS[stage]) is not None

    def load(self, stage: str, kind: type[Artefact]) -> Artefact:
        """Return the record of a stage.

        Raises:
            UsageError: it hasn't run in this work folder.
        """
        record = self._read(stage, kind)
        if record is None:
            raise self.left_nothing(stage)
        return record

    def _read(self, stage: str, kind: type[Artefact]) -> Artefact | None:
        return read_record(self.record_path(stage), kind)

    def left_nothing(self, stage: str) -> UsageError:
        """Return the error that a stage's output is missing here."""
        return UsageError(
            f"{self.work} has no output of the stage {stage}",
            why="this stage needs that output",
            fix="run the whole build with --no-cache --keep-work first, or that stage with --stage",
        )


def bare_workspace(console: Console, caller: Caller) -> Workspace:
    """Return the folders of a session that builds no target."""
    return Workspace(
        cache=caller.cache,
        work=caller.project / "work" / "session",
        dist=caller.project / "dist",
        console=console,
        caller=caller,
    )
