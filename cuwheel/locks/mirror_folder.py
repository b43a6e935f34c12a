"""What makes a folder of downloads a mirror, and lies beside them.

wheels.html              links every wheel, for pip and uv
cuwheel/, projects/      the project itself, and recipe folders from outside of it
mirror.json, README.txt  the targets it serves, and how to build them
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from cuwheel import limits
from cuwheel.cuda.toolkits import toolkit_by_release
from cuwheel.errors import FileAccessError
from cuwheel.fetch.mirror import MIRROR_VARIABLE, WHEELS_PAGE
from cuwheel.paths import ROOT
from cuwheel.sources.pinned import source_folders
from cuwheel.sources.tree import copy_source
from cuwheel.system.files import new_folder, remove_leftovers, write_atomically
from cuwheel.system.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cuwheel.model.target import Target


README = "README.txt"

_TARGETS = "mirror.json"
_PROJECT = "cuwheel"
_PROJECTS = "projects"
# What builds need of a project folder; of our own also what people read and nox starts.
_RECIPES = ("recipes", "envs", "patches")
_COPIED = (
    *("noxfile.py", "pyproject.toml", "cuwheel", *_RECIPES),
    *("README.md", "TROUBLESHOOTING.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "docs"),
)


_PLATFORM = "--platform"
_FOREIGN = (
    f"A build with {_PLATFORM} takes a cross compiler and QEMU of the machine where it runs, and a",
    "root folder of the other one, which this folder doesn't hold: make one where there is a",
    f"network ({_PROJECT}/docs/how-to/arm64.md), carry it along, and name it. On a machine of that",
    f"kind leave {_PLATFORM} and the root folder out.",
)


@dataclass(frozen=True, kw_only=True)
class ServedTarget:
    """What a mirror says of a target: the Pythons it was written for, and what builds it."""

    pythons: tuple[str, ...]
    command: str


def read_targets(folder: Path) -> dict[str, ServedTarget]:
    """The targets that a mirror serves, by name; none where there is no mirror yet.

    Raises:
        FileAccessError: what says so can't be understood.
    """
    path = folder / _TARGETS
    try:
        text = read_regular(path, limit=limits.JSON) if path.is_file() else b'{"targets": {}}'
        found = json.loads(text)["targets"].items()
        return {
            name: ServedTarget(pythons=tuple(facts["pythons"]), command=facts["command"])
            for name, facts in found
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FileAccessError(
            f"{path} is invalid",
            why="`nox -s mirror` didn't write it",
            fix="use another folder: --to, or remove that file: the mirror is then checked and "
            "completed",
        ) from None


def complete_mirror(folder: Path, targets: Sequence[Target]) -> dict[str, ServedTarget]:
    """Write what lies beside the downloads, in place of what an earlier run wrote.

    Args:
        folder: the mirror, with all downloads in it.
        targets: what it serves now too.

    Returns:
        What it serves, by name.
    """
    for root in {ROOT, *(target.root for target in targets)}:
        _copy_project(root, folder)
    write_atomically(folder / WHEELS_PAGE, wheels_page(folder))
    served = read_targets(folder)
    for target in targets:
        name = served_name(target)
        pythons = served[name].pythons if name in served else ()
        served[name] = ServedTarget(
            pythons=tuple(sorted({*pythons, target.python})), command=_command(target)
        )
    write_atomically(folder / README, _readme(served, folder))
    described = {name: dataclasses.asdict(served[name]) for name in sorted(served)}
    write_atomically(folder / _TARGETS, json.dumps({"targets": described}, indent=1) + "\n")
    return served


def served_name(target: Target) -> str:
    """What a mirror calls a target: for another kind of machine it takes other wheels."""
    foreign = f" for {target.platform.name}" if target.platform.is_foreign else ""
    return f"{target.name}{foreign}"


def wheels_page(folder: Path) -> str:
    """Links to all wheels, relative to the page: it can be read from a disk and from any server."""
    wheels = sorted((folder / "downloads").glob("[!.]*/*.whl"), key=lambda path: path.name)
    links = (
        f'<a href="downloads/{path.parent.name}/{quote(path.name)}#sha256={path.parent.name}">'
        f"{path.name}</a><br>"
        for path in wheels
    )
    return "\n".join(["<!DOCTYPE html>", "<title>wheels</title>", *links, ""])


def _copy_project(root: Path, folder: Path) -> None:
    """Put a project folder, with the sources that lie in it, in place of an older copy."""
    final = folder / _PROJECT if root == ROOT else folder / _PROJECTS / root.name
    remove_leftovers(final)
    skipped = shutil.ignore_patterns("__pycache__", ".*")
    with new_folder(final) as aside:
        for source in (root / name for name in (_COPIED if root == ROOT else _RECIPES)):
            if source.is_dir():
                shutil.copytree(source, aside / source.name, ignore=skipped, symlinks=True)
            elif source.is_file():
                shutil.copyfile(source, aside / source.name)
        for path in source_folders(root):
            copy_source(root / path, aside / path)


def _command(target: Target) -> str:
    """What builds a target from the mirror; with the provider where it isn't the usual one."""
    usual = toolkit_by_release(target.toolkit.release).provider
    chosen = f" --toolchain {target.provider}" if target.provider != usual else ""
    foreign = f" {_PLATFORM} {target.platform.name}" if target.platform.is_foreign else ""
    named = f" --python {target.python}" if foreign and target.recipe.python != "abi3" else ""
    return f"nox -s build-{target.name} -- --offline{chosen}{foreign}{named}"


def _readme(served: Mapping[str, ServedTarget], folder: Path) -> str:
    pythons = sorted({python for one in served.values() for python in one.pythons})
    outside = sorted(path.name for path in (folder / _PROJECTS).glob("*"))
    own = [f"    export CUWHEEL_PROJECT=$PWD/{_PROJECTS}/{name}" for name in outside]
    lock = f"{_PROJECT}/envs/nox.lock"
    has_foreign = any(_PLATFORM in one.command for one in served.values())
    return "\n".join(
        [
            f"Everything that cuwheel needs to build: {', '.join(sorted(served))}",
            f"with Python {', '.join(pythons)}. No network is needed.",
            "",
            "Once, in this folder, with one of these Pythons:",
            "",
            "    python3 -m venv ~/nox",
            f"    ~/nox/bin/pip install --no-index --find-links {WHEELS_PAGE} -r {lock}",
            "",
            "Then, still in this folder (write %20 for each space in its path):",
            "",
            f"    export {MIRROR_VARIABLE}=file://$PWD",
            *own,
            *(["    export CUWHEEL_TARGET_ROOT=/path/to/root"] if has_foreign else ()),
            f"    cp -r {_PROJECT} ~/{_PROJECT} && cd ~/{_PROJECT}",
            *(f"    ~/nox/bin/{served[name].command}" for name in sorted(served)),
            "",
            "If an intranet server serves this folder, use its URL instead of file://$PWD,",
            "and leave --offline out. Every file is checked against the locks.",
            *(_FOREIGN if has_foreign else ()),
            f"More: {_PROJECT}/docs/how-to/offline.md",
            "",
        ]
    )
