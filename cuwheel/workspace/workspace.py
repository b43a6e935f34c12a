"""Where a build reads and writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cuwheel.errors import StageOrderError
from cuwheel.fetch.retry import RETRY_POLICY
from cuwheel.paths import default_cache, project_folder
from cuwheel.system.files import write_atomically
from cuwheel.workspace.records import RECORDS
from cuwheel.workspace.serialization import Artefact, read_record, to_json

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.fetch.retry import RetryPolicy
    from cuwheel.system.console import Console


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """The folders of one target's build, and the records that its stages leave.

    Attributes:
        cache: shared between all builds of this user: toolchains, environments, downloads.
        work: this target's own folder; a new build empties it.
        dist: where finished wheels go.
        console: speaks to the person.
        retry_policy: how long downloads go on trying.
        checked: folders of the cache that this process has found whole, and what is known of each:
            the builds of one command look at a toolchain or an environment once.
    """

    cache: Path
    work: Path
    dist: Path
    console: Console
    retry_policy: RetryPolicy = RETRY_POLICY
    checked: dict[Path, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Its own folders; where they lie in a source tree, they are no source."""
        return tuple(path.absolute() for path in (self.cache, self.work, self.dist))

    def folder(self, name: str) -> Path:
        """A folder of the work folder; made if it isn't there."""
        path = self.work / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def shared_folder(self, name: str) -> Path:
        """A folder of the cache; made if it isn't there."""
        path = self.cache / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def log_folder(self) -> Path:
        """Where the logs are."""
        return self.work / "logs"

    def log(self, stage: str) -> Path:
        """The log file of a stage."""
        return self.folder("logs") / f"{stage}.log"

    def save(self, stage: str, artefact: object) -> None:
        """Keep what a stage made, for the stages after it and for a later run."""
        write_atomically(self.work / "stages" / f"{stage}.json", to_json(artefact))

    def has(self, stage: str) -> bool:
        """Whether a stage has run to its end in this work folder, and left a whole record."""
        return self._read(stage, RECORDS[stage]) is not None

    def load(self, stage: str, kind: type[Artefact]) -> Artefact:
        """What a stage made.

        Raises:
            StageOrderError: it hasn't run in this work folder.
        """
        found = self._read(stage, kind)
        if found is None:
            raise self.left_nothing(stage)
        return found

    def _read(self, stage: str, kind: type[Artefact]) -> Artefact | None:
        return read_record(self.work / "stages" / f"{stage}.json", kind)

    def left_nothing(self, stage: str) -> StageOrderError:
        """The error that a stage has left nothing here, or no more."""
        return StageOrderError(
            f"{self.work} has no output of the stage {stage}",
            why="this stage needs that output",
            fix="run the whole build with --keep-work first, or that stage with --stage",
        )


def bare_workspace(console: Console) -> Workspace:
    """The folders of a session that builds no target."""
    return Workspace(
        cache=default_cache(),
        work=project_folder() / "work" / "session",
        dist=project_folder() / "dist",
        console=console,
    )
