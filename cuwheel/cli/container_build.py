"""Builds in a container: the same command there, in parts with and without a network."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cuwheel.base.caller import Caller
from cuwheel.base.system.console import Console
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.output.github import SUMMARY_VARIABLE, table
from cuwheel.base.system.regular_files import read_regular
from cuwheel.build.sandbox.containers.engine import Container, open_container
from cuwheel.build.workspace.failure_record import read_failures
from cuwheel.build.workspace.records import STAGES
from cuwheel.build.workspace.request import BuildRequest
from cuwheel.cli.defaults import CONFIG_VARIABLE
from cuwheel.cli.target_choice import output_folders, platform_of

UNFINISHED = 75
"""Exit code of the inner cuwheel after a part that others follow (EX_TEMPFAIL)."""

CONTAINER_NEEDS = {
    ("--container-engine", "--container"): "it selects the program that runs the image"
}
_LARGEST_SUMMARY = 1 << 20  # bytes; GitHub's limit for a step

# A package's own code runs in `build` alone; its inputs have been fetched by then.
_BUILDING = "build"
_PARTS = (
    ("preflight", "downloads", True),
    (_BUILDING, "the package's own build, without network", False),
)


@dataclass(frozen=True, kw_only=True)
class Part:
    """One run of cuwheel in the container.

    Attributes:
        goes_on: the exit code after which the next part follows; None: it is the last.
    """

    request: BuildRequest
    description: str
    network: bool
    goes_on: int | None = None


def container_of(request: BuildRequest, console: Console, caller: Caller) -> Container:
    """Return the container of a request that has one; for the errors see `open_container`."""
    reference, program = request.container or "", request.container_engine
    return open_container(reference, program, console, caller, offline=request.offline)


def build_in_container(request: BuildRequest, console: Console, caller: Caller) -> int:
    """Run a command line of `build` in its image; return the inner exit code."""
    container = container_of(request, console, caller)
    work, dist = (path.resolve() for path in output_folders(request, caller))
    status, started = 0, time.time()
    work.mkdir(parents=True, exist_ok=True)
    for part in parts_of(request_inside(request)):
        console.note(f"in {container.image.reference}: {part.description}")
        with temporary_folder(work) as folder:
            summary = folder / "summary.md"
            status = container.run(
                ("build", *part.request.argv()),
                read=read_folders(part.request),
                write=(work, dist),
                network=part.network and not request.offline,
                variables={SUMMARY_VARIABLE: str(summary), CONFIG_VARIABLE: ""},
            )
            if not status:
                with contextlib.suppress(OSError, ValueError):
                    text = read_regular(summary, limit=_LARGEST_SUMMARY).decode()
                    console.add_to_summary([text])
        if status != part.goes_on:
            break
    # From the records of failures: the inner summary may hold text of the package's own.
    for target in request.targets if status else ():
        for failure in read_failures(dist, target, since=started):
            rows = {"failed": failure.what, "because": failure.why, "to fix": failure.fix}
            console.add_to_summary(table(rows))
    return status


def request_inside(request: BuildRequest) -> BuildRequest:
    """Return the request that means the same to the cuwheel in a container."""
    folders = ("work", "dist", "source", "target_root")
    real: dict[str, Any] = {
        name: path.resolve() for name in folders if (path := getattr(request, name))
    }
    # As outside: the release of the Python that runs nox. `Container.run` adds `--offline`.
    real["host_compiler"] = request.host_compiler or "system"
    alone = replace(request, container=None, container_engine=None, offline=False, **real)
    return alone.with_python()


def parts_of(request: BuildRequest) -> Iterator[Part]:
    """Yield the runs that a request takes; each goes on where the one before it stopped."""
    if request.dry_run:
        yield Part(request=request, description="the reasons for the build", network=False)
        return
    if request.stage:
        text, network = f"the stage {request.stage}", request.stage != _BUILDING
        yield Part(request=request, description=text, network=network)
        return
    end = request.until or STAGES[-1]
    for last, text, network in _PARTS:
        if STAGES.index(end) <= STAGES.index(last):
            yield Part(request=request, description=text, network=network)
            return
        # A part leaves a wheel that is up to date as it is.
        part = replace(request, until=last) if request.until else replace(request, part=last)
        goes_on = 0 if request.until else UNFINISHED
        yield Part(request=part, description=text, network=network, goes_on=goes_on)
    # Without --no-cache, which would build again, here.
    rest = replace(request, no_cache=False)
    yield Part(request=rest, description="the stages after the build", network=True)


def read_folders(request: BuildRequest) -> list[Path]:
    """Return the folders besides those of every container that a request reads."""
    root = request.target_root if platform_of(request.platform).is_foreign else None
    return [path for path in (request.source, root) if path]
