"""Why no container can be started, and what to do about it."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import ContainerError
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from cuwheel.containers.image import Image


_SUBUID = Path("/etc/subuid")  # subuid(5)

# What podman 4.3 says without ranges of ids, or without the programs that grant them.
_NO_RANGES = re.compile(r"(?i)newuidmap|newgidmap|subuid|subgid|insufficient UIDs|lchown")
_NO_DAEMON = re.compile(r"(?i)cannot connect to the docker daemon|permission denied.*docker\.sock")


def no_engine(asked: str | None) -> ContainerError:
    """Neither of the programs is there, or not the one that was asked for."""
    return ContainerError(
        f"{asked} is not installed" if asked else "neither podman nor docker is installed",
        why="--container needs one of them to run the build in an image",
        fix="install podman, which needs neither a daemon nor root (Debian, Ubuntu: `apt-get "
        "install podman uidmap slirp4netns`), or run without --container",
    )


def engine_refused(program: str, said: str, uid: int | None = None) -> ContainerError:
    """The engine itself failed.

    Args:
        program: `podman` or `docker`.
        said: its output; empty where it went to the terminal.
        uid: who has started it; by default who runs this.
    """
    return ContainerError(
        f"{program} can't run a container here",
        why=_last_line(said) or f"{program} printed the reason above",
        fix=_fix(program, said, os.getuid() if uid is None else uid),
    )


def image_missing(program: str, image: Image) -> ContainerError:
    """The image isn't on this machine, and nothing may be downloaded, or nobody has it."""
    if image.name:
        why = "it isn't on this machine, and --offline allows no download"
        fix = f"`{program} pull {image.reference}` once, or `{program} load` it from a file"
    else:
        why = "an ID refers to an image on this machine only; registries don't know it"
        fix = f"`{program} image ls --no-trunc` lists the images; or write NAME@sha256:…"
    return ContainerError(f"{program} has no image {image.reference}", why=why, fix=fix)


def pull_failed(program: str, image: Image, said: str) -> ContainerError:
    """The image doesn't come, or can't be unpacked.

    Args:
        program: `podman` or `docker`.
        image: which.
        said: the engine's output.
    """
    if _NO_RANGES.search(said):
        return engine_refused(program, said)
    return ContainerError(
        f"{image.reference} could not be pulled",
        why=_last_line(said),
        fix=f"check that the registry can be reached (`{program} login`, if it needs a login), "
        "and that it has an image with this name and digest",
    )


def no_python_inside(image: Image, names: str) -> ContainerError:
    """Cuwheel can't run in the image."""
    return ContainerError(
        f"{image.reference} has no Python that cuwheel can run on",
        why=f"none of {names.replace(' ', ', ')} on its PATH is 3.10 or newer and has venv and "
        "ensurepip",
        fix="use an image that has one, such as manylinux's; or install one in it (Debian, "
        "Ubuntu: `apt-get install python3-venv python3-dev`), and give the new image's digest",
    )


def _fix(program: str, said: str, uid: int) -> str:
    if _NO_DAEMON.search(said):
        return "start docker's daemon, and check that you may use it; or use podman, which has none"
    if program == "podman" and uid and (_NO_RANGES.search(said) or not _has_ranges(uid)):
        return (
            "assign subordinate ids to your user: `sudo usermod --add-subuids 100000-165535 "
            "--add-subgids 100000-165535 $USER`, `podman system migrate`; newuidmap (Debian: "
            "uidmap) has to be installed"
        )
    return f"check that `{program} run --rm IMAGE true` works for you"


def _last_line(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip() and "level=warning" not in line]
    return lines[-1] if lines else ""


def _has_ranges(uid: int) -> bool:
    names = {str(uid)}
    with contextlib.suppress(KeyError):
        names.add(pwd.getpwuid(uid).pw_name)
    try:
        lines = read_text(_SUBUID).splitlines()
    except OSError:
        return False
    return any(line.partition(":")[0] in names for line in lines)
