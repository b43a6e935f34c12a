"""A `build-…` command line run in a container: which parts of it have a network, and which not."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.cli.target_choice import foreign_root_of
from cuwheel.containers.engine import ENGINES, Engine
from cuwheel.containers.image import image_here, parse_image
from cuwheel.containers.mounts import share
from cuwheel.containers.refusals import no_engine
from cuwheel.errors import UsageError
from cuwheel.paths import given_path, project_folder
from cuwheel.pipeline import STAGES
from cuwheel.system.output.github import SUMMARY_VARIABLE, add_to_summary, table
from cuwheel.system.process import which
from cuwheel.system.pythons import own_python
from cuwheel.system.regular_files import read_regular
from cuwheel.workspace.failure_record import read_failures

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cuwheel.cli.parser import Parser
    from cuwheel.containers.engine import Inside
    from cuwheel.containers.image import Image
    from cuwheel.system.console import Console


PART_OPTION = "--part"
UNFINISHED = 75
"""What cuwheel exits with inside where a part is done and there is more to do (EX_TEMPFAIL)."""

_LARGEST_SUMMARY = 1 << 20  # bytes, as GitHub takes them of a step

# A package's own code runs in `build` alone; what it needs has been fetched by then.
_BUILDING = "build"
_PARTS = (
    ("preflight", "downloads", True),
    (_BUILDING, "the package's own build, without network", False),
)

# Options by what becomes of them inside; those that aren't here choose the parts, or the container.
_VALUES = ("framework", "link", "toolchain", "platform", "jobs", "sandbox", "build_tag")
_REPEATED = ("arch", "python")
_FLAGS = ("quiet", "verbose", "any_driver", "json", "keep_work", "replace")
_FOLDERS = ("work", "dist", "source")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One run of cuwheel in the container.

    Attributes:
        options: beside those of the command line.
        says: what it is for.
        network: whether it has one.
        goes_on: the exit code after which the next part follows; None: it is the last.
    """

    options: tuple[str, ...]
    says: str
    network: bool
    goes_on: int | None = None


@dataclass(frozen=True, kw_only=True)
class Container:
    """An image that is on this machine, and what runs it.

    Attributes:
        engine: podman or docker.
        image: the image.
        inside: what it has.
    """

    engine: Engine
    image: Image
    inside: Inside

    def run(
        self,
        arguments: Sequence[str],
        *,
        read: Iterable[Path] = (),
        write: Iterable[Path],
        network: bool,
        variables: Mapping[str, str] | None = None,
    ) -> int:
        """Run a command of cuwheel in it, as `Engine.run_cuwheel` does.

        Args:
            arguments: of `python -m cuwheel`; without a network it is told so.
            read: what it has beside checkout and projects.
            write: likewise, to write.
            network: whether it has one.
            variables: that it gets beside those of this process.

        Returns:
            Its exit code.
        """
        shared = share(os.environ, read=read, write=write, network=network)
        shared = replace(shared, passed={**shared.passed, **(variables or {})})
        return self.engine.run_cuwheel(
            (*arguments, *(() if network else ("--offline",))),
            *(self.image, self.inside, shared),
            name=f"cuwheel-{secrets.token_hex(6)}",
        )


def add_container_options(parser: Parser) -> None:
    """Add which image to build in."""
    add = parser.add_argument
    add(
        "--container",
        metavar="IMAGE@sha256:DIGEST",
        help="build in this image, with its compilers and C library; the network is off while the "
        "package's own build runs",
    )
    add(
        "--container-engine",
        choices=ENGINES,
        help="program that runs the image; default: podman if it is installed",
    )


def check_container_options(given: argparse.Namespace) -> None:
    """See that they go together.

    Raises:
        UsageError: they don't.
    """
    if given.container_engine and not given.container:
        raise UsageError(
            "--container-engine needs --container",
            why="it selects the program that runs the image",
            fix="add --container, or leave out --container-engine",
        )


def open_container(given: argparse.Namespace, console: Console) -> Container:
    """See that the image that a command line names can be used here.

    Raises:
        UsageError: the image isn't pinned by digest.
        ContainerError: no engine, no image, or no Python in it.
    """
    image = parse_image(given.container)
    if image_here(os.environ):
        raise UsageError(
            "--container was given in a container",
            why="this cuwheel was itself started by --container",
            fix="leave it out",
        )
    engine = Engine(program=_choose_program(given.container_engine))
    engine.obtain(image, console, offline=given.offline)
    return Container(engine=engine, image=image, inside=engine.look_inside(image))


def build_in_container(given: argparse.Namespace, console: Console) -> int:
    """Do what a command line asks for in the image that it names.

    Returns:
        The exit code of the cuwheel inside, which has printed its own error.

    Raises:
        UsageError: as `open_container`.
        ContainerError: likewise, or the container can't be started.
    """
    container = open_container(given, console)
    work, dist = (_folder(given, name) or project_folder() / name for name in ("work", "dist"))
    read = [path for path in (_folder(given, "source"), _root(given)) if path]
    status, started = 0, time.time()
    work.mkdir(parents=True, exist_ok=True)
    for part in parts_of(given):
        console.note(f"in {container.image.reference}: {part.says}")
        with tempfile.TemporaryDirectory(dir=work, prefix="summary-") as folder:
            summary = Path(folder) / "summary.md"
            status = container.run(
                ("build", *words_of(given), *part.options),
                read=read,
                write=(work, dist),
                network=part.network and not given.offline,
                variables={SUMMARY_VARIABLE: str(summary)},
            )
            if not status:
                _hand_on(summary)
        if status != part.goes_on:
            break
    if status:
        _tell_failures(given.targets, dist, started)
    return status


def _hand_on(summary: Path) -> None:
    """Add what the cuwheel inside says of its wheels to the summary of this step, if it's one."""
    with contextlib.suppress(OSError, ValueError):
        text = read_regular(summary, limit=_LARGEST_SUMMARY).decode()
        add_to_summary([text], os.environ)


def _tell_failures(targets: Iterable[str], dist: Path, started: float) -> None:
    """Add to the summary of this step why its builds failed.

    Their records say it: what was written inside may be the package's own words.
    """
    for target in targets:
        for failure in read_failures(dist, target, since=started):
            rows = {"failed": failure.what, "because": failure.why, "to fix": failure.fix}
            add_to_summary(table(rows), os.environ)


def parts_of(given: argparse.Namespace) -> Iterator[Part]:
    """The runs that a command line takes; each goes on where the one before it stopped."""
    again = ("--no-cache",) if given.no_cache else ()
    if given.dry_run:
        yield Part(options=("--dry-run", *again), says="the reasons for the build", network=False)
        return
    if given.stage:
        is_building = given.stage == _BUILDING
        options = ("--stage", given.stage, *again)
        yield Part(options=options, says=f"the stage {given.stage}", network=not is_building)
        return
    end, option, goes_on = given.until, "--until", 0
    if end is None:
        end, option, goes_on = STAGES[-1], PART_OPTION, UNFINISHED
    for last, says, network in _PARTS:
        if STAGES.index(end) <= STAGES.index(last):
            yield Part(options=("--until", end, *again), says=says, network=network)
            return
        options = (option, last, *again)
        yield Part(options=options, says=says, network=network, goes_on=goes_on)
    # Without --no-cache, which would build again, here.
    options = ("--until", end) if given.until else ()
    yield Part(options=options, says="the stages after the build", network=True)


def words_of(given: argparse.Namespace) -> Iterator[str]:
    """The command line for inside: targets, and the options that mean the same there."""
    yield from given.targets
    for name in _VALUES:
        if value := getattr(given, name):
            yield from (_option(name), str(value))
    for name in _REPEATED:
        for value in getattr(given, name):
            yield from (_option(name), value)
    if not given.python:  # as outside: the release of the Python that runs nox
        yield from ("--python", own_python().release)
    yield from (_option(name) for name in _FLAGS if getattr(given, name))
    for name in _FOLDERS:
        if folder := _folder(given, name):
            yield from (_option(name), str(folder))
    if root := _root(given):
        yield from ("--target-root", str(root))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _folder(given: argparse.Namespace, name: str) -> Path | None:
    value = getattr(given, name)
    return given_path(value).resolve() if value else None


def _root(given: argparse.Namespace) -> Path | None:
    root = foreign_root_of(given)
    return root.resolve() if root else None


def _choose_program(asked: str | None) -> str:
    path = os.environ.get("PATH", os.defpath)
    for program in (asked,) if asked else ENGINES:
        if which(program, path):
            return program
    raise no_engine(asked)
