"""The files of a mirror next to its downloads.

wheels.html              links every wheel, for pip and uv
cuwheel/, projects/      the project itself, and recipe folders from outside of it
mirror.json, README.txt  the targets it serves, and how to build them
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from cuwheel.base import limits
from cuwheel.base.errors import FileAccessError
from cuwheel.base.fetch.urls import MIRROR_VARIABLE, WHEELS_PAGE
from cuwheel.base.paths import ROOT
from cuwheel.base.system.folders.output_folder import FolderKind, new_tree, write_files
from cuwheel.base.system.regular_files import copy_regular, parse_json, read_regular
from cuwheel.build.inputs.pinned import source_folders
from cuwheel.build.inputs.tree import copy_source
from cuwheel.build.recipe.target import Target
from cuwheel.check.cuda.toolkits import toolkit_by_release

README = "README.txt"

_TARGETS = "mirror.json"
_PROJECT = "cuwheel"
_PROJECTS = "projects"
# Parts of a project folder that builds need; of our own also documents and what nox needs.
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


MIRROR_FOLDER = FolderKind(name="mirror", what="a mirror")


@dataclass(frozen=True, kw_only=True)
class ServedTarget:
    """A target in a mirror's list: the Pythons it was written for, and the build command."""

    pythons: tuple[str, ...]
    command: str


def read_targets(folder: Path) -> dict[str, ServedTarget]:
    """Return the targets that a mirror serves, by name; none without a mirror.

    Raises:
        FileAccessError: its list is invalid.
    """
    path = folder / _TARGETS
    try:
        text = read_regular(path, limit=limits.JSON) if path.is_file() else b'{"targets": {}}'
        return {
            name: ServedTarget(pythons=tuple(target["pythons"]), command=target["command"])
            for name, target in parse_json(text)["targets"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FileAccessError(
            f"{path} is invalid",
            why="`nox -s mirror` didn't write it",
            fix="use another folder: --to, or remove that file: the mirror is then checked and "
            "completed",
        ) from None


def complete_mirror(folder: Path, targets: Sequence[Target]) -> dict[str, ServedTarget]:
    """Write the files next to the downloads, replacing those of an earlier run.

    Returns:
        The targets that it serves, by name.
    """
    for root in {ROOT, *(target.root for target in targets)}:
        _copy_project(root, folder)
    served = read_targets(folder)
    for target in targets:
        name = served_name(target)
        pythons = served[name].pythons if name in served else ()
        served[name] = ServedTarget(
            pythons=tuple(sorted({*pythons, target.python})), command=_command(target)
        )
    document = {"targets": {name: dataclasses.asdict(served[name]) for name in sorted(served)}}
    files = {
        WHEELS_PAGE: wheels_page(folder),
        README: _readme(served, folder),
        _TARGETS: json.dumps(document, indent=1) + "\n",
    }
    parts = [{name: text.encode()} for name, text in files.items()]
    write_files(folder, MIRROR_FOLDER, parts, is_all=False)
    return served


def served_name(target: Target) -> str:
    """Return a target's name in a mirror; another kind of machine has other wheels."""
    foreign = f" for {target.platform.name}" if target.platform.is_foreign else ""
    return f"{target.name}{foreign}"


def wheels_page(folder: Path) -> str:
    """Return a page with relative links to all wheels, for use on a disk and on any server."""
    wheels = sorted((folder / "downloads").glob("[!.]*/*.whl"), key=lambda path: path.name)
    links = (
        f'<a href="downloads/{path.parent.name}/{quote(path.name)}#sha256={path.parent.name}">'
        f"{path.name}</a><br>"
        for path in wheels
    )
    return "\n".join(["<!DOCTYPE html>", "<title>wheels</title>", *links, ""])


def _copy_project(root: Path, folder: Path) -> None:
    """Replace an older copy of a project folder and the sources in it."""
    name = _PROJECT if root == ROOT else f"{_PROJECTS}/{root.name}"
    skipped = shutil.ignore_patterns("__pycache__", ".*")
    with new_tree(folder, MIRROR_FOLDER, name) as aside:
        for source in (root / name for name in (_COPIED if root == ROOT else _RECIPES)):
            if source.is_dir():
                shutil.copytree(
                    source,
                    aside / source.name,
                    ignore=skipped,
                    symlinks=True,
                    copy_function=_copy_with_mode,
                )
            elif source.is_file():
                copy_regular(source, aside / source.name)
        for path in source_folders(root):
            copy_source(root / path, aside / path)


def _copy_with_mode(source: str, target: str) -> None:
    """Copy a file that isn't a FIFO or a device."""
    copy_regular(source, target)
    shutil.copymode(source, target)


def _command(target: Target) -> str:
    usual = toolkit_by_release(target.toolkit.release).provider
    provider = f" --toolchain {target.provider}" if target.provider != usual else ""
    is_usual = target.host_compiler == target.usual_compiler
    compiler = "" if is_usual else f" --host-compiler {target.host_compiler}"
    foreign = f" {_PLATFORM} {target.platform.name}" if target.platform.is_foreign else ""
    python = f" --python {target.python}" if foreign and target.recipe.python != "abi3" else ""
    return f"nox -s build-{target.name} -- --offline{provider}{compiler}{foreign}{python}"


def _readme(served: Mapping[str, ServedTarget], folder: Path) -> str:
    pythons = sorted({python for target in served.values() for python in target.pythons})
    names = sorted(path.name for path in (folder / _PROJECTS).glob("*"))
    projects = [f"    export CUWHEEL_PROJECT=$PWD/{_PROJECTS}/{name}" for name in names]
    lock = f"{_PROJECT}/envs/nox.lock"
    has_foreign = any(_PLATFORM in target.command for target in served.values())
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
            *projects,
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
