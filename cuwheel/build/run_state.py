"""What a work folder holds: of which wheel, and what decided each stage that has run there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cuwheel.build.rebuild_key import digest_of_key, part_of_build
from cuwheel.system.files import write_atomically
from cuwheel.system.regular_files import read_json
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuwheel.workspace.workspace import Workspace


FROM_SMOKE = ("smoke", "provenance", "index")  # stages that the smoke test decides too
MARK = "key"  # of which run the folder is, until that has ended
_TIDYING = "finished"  # in place of that
RAN = "ran.json"  # by stage, the digest of what decided it when it last ran


def is_unfinished(workspace: Workspace) -> bool:
    """Whether a run has begun here and not come to its end."""
    return (workspace.work / MARK).is_file()


def mark_cleanup(workspace: Workspace) -> None:
    """Note that the run has ended, and that only what the next one doesn't need is in the way."""
    write_atomically(workspace.work / MARK, _TIDYING)


def is_cleaning_up(workspace: Workspace) -> bool:
    """Whether somebody has begun with that, and not come to its end."""
    return read_mark(workspace) == _TIDYING


def read_mark(workspace: Workspace) -> str:
    """Of which run the folder is; empty where that isn't known."""
    try:
        return read_text(workspace.work / MARK, errors="replace")
    except FileNotFoundError:
        return ""


def save_stage(name: str, record: object, workspace: Workspace, key: dict[str, str]) -> None:
    """Keep what a stage made, and what decided it."""
    workspace.save(name, record)
    ran = {**(read_json(workspace.work / RAN) or {}), name: _decided(name, key)}
    write_atomically(workspace.work / RAN, json.dumps(ran))


def have_all_run(stages: Sequence[str], workspace: Workspace, key: dict[str, str]) -> bool:
    """Whether each stage last ran with what decides it now."""
    ran = read_json(workspace.work / RAN) or {}
    return all(ran.get(name) == _decided(name, key) for name in stages)


def mark_of(key: dict[str, str]) -> str:
    """What names the run that a work folder is of: the build's part, then all of its key."""
    return f"{digest_of_key(part_of_build(key))} {digest_of_key(key)}"


def resume_run(workspace: Workspace, key: dict[str, str]) -> bool:
    """Make an unfinished run's folder one of this key, where no more than the smoke test differs.

    Returns:
        False where the run was about another wheel; nothing is changed then.
    """
    mark, ours = workspace.work / MARK, mark_of(key)
    was = read_mark(workspace)
    if was.partition(" ")[0] != ours.partition(" ")[0]:
        return False
    if was != ours:
        (workspace.work / "stages" / "smoke.json").unlink(missing_ok=True)
        write_atomically(mark, ours)
    return True


def _decided(name: str, key: dict[str, str]) -> str:
    return digest_of_key(key if name in FROM_SMOKE else part_of_build(key))
