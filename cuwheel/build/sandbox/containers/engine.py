"""podman or docker: obtains the image and runs cuwheel in it."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.caller import Caller
from cuwheel.base.errors import SandboxError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.base.system.console import Console
from cuwheel.base.system.process import Finished, attach, run, which
from cuwheel.build.sandbox.containers.image import IMAGE_VARIABLE, Image, image_here, parse_image
from cuwheel.build.sandbox.containers.mounts import share

ENGINES = ("podman", "docker")

# podman-image-inspect(1), docker: "image not known", "No such image: …".
_UNKNOWN = re.compile(r"(?i)image not known|no such image")
# Messages of podman 4.3 without ranges of ids, or without the programs that grant them.
_NO_RANGES = re.compile(r"(?i)newuidmap|newgidmap|subuid|subgid|insufficient UIDs|lchown")
_NO_DAEMON = re.compile(r"(?i)cannot connect to the docker daemon|permission denied.*docker\.sock")
# Exit codes of podman(1) and docker when they themselves failed, and nothing ran.
_ENGINE_FAILED = (125, 126, 127)

_PYTHONS = tuple(f"python3{minor}" for minor in ("", ".14", ".13", ".12", ".11", ".10"))
_USABLE = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))"
_PROBE = f"""
for name in {" ".join(_PYTHONS)}; do
    if "$name" -c '{_USABLE}' 2>/dev/null; then command -v "$name"; break; fi
done
echo "compiler $(command -v g++)"
"""


@dataclass(frozen=True, kw_only=True)
class Container:
    """An image on this machine, and the engine that runs it.

    Attributes:
        program: the engine's name.
        python: that cuwheel can run on, in the image.
        compiler: the `g++` that is first on the image's PATH; empty where there is none.
    """

    program: str
    image: Image
    python: str
    caller: Caller
    compiler: str = ""

    def run(
        self,
        arguments: Sequence[str],
        *,
        read: Iterable[Path] = (),
        write: Iterable[Path],
        network: bool,
        variables: Mapping[str, str] | None = None,
    ) -> int:
        """Run `python -m cuwheel` in the image, on our own terminal; return its exit code.

        The end of this call, or of this process, ends the container too.

        Args:
            read: folders that it may read, in addition to those of every container.
            network: without one, cuwheel gets `--offline`.

        Raises:
            SandboxError: the engine could not start it.
        """
        shared = share(self.caller, read=read, write=write, network=network)
        passed = {**shared.passed, **(variables or {})}
        name = f"cuwheel-{secrets.token_hex(6)}"
        start = (self.python, "-sE", "-m", "cuwheel.bootstrap", "engine", "-m", "cuwheel")
        status = attach(
            [
                *_run_options(self.program, self.caller.environ),
                *("--name", name, "--workdir", str(ROOT)),  # from which `-m` takes cuwheel
                *(() if network else ("--network", "none")),
                *shared.mounts(),
                *(word for variable in passed for word in ("--env", variable)),
                *self._fixed_variables(),
                *(self.image.reference, *start, *arguments),
                *(() if network else ("--offline",)),
            ],
            env={**self.caller.environ, **passed},
            when_killed=(self.program, "rm", "--force", name),
        )
        if status in _ENGINE_FAILED:
            raise engine_failed(self.program, "")
        return status

    def _fixed_variables(self) -> tuple[str, ...]:
        """Return options for the image's name, and a compiler that only the image's PATH names.

        By itself cuwheel searches the system's folders only; manylinux's compiler isn't there.
        """
        variables = ("--env", f"{IMAGE_VARIABLE}={self.image.reference}")
        folder = os.path.dirname(self.compiler)  # noqa: PTH120 - as text, of another root
        if not self.compiler or folder in SYSTEM_PATH.split(":"):
            return variables
        return (*variables, "--env", f"CXX={self.compiler}")


def open_container(
    reference: str, program: str | None, console: Console, caller: Caller, *, offline: bool
) -> Container:
    """Check that an image can be used here, pull it where it is missing, and return its container.

    Args:
        reference: the value of `--container`.
        program: the engine; None: the first that is installed.

    Raises:
        UsageError: the image isn't pinned by digest.
        SandboxError: no engine, no image, or no Python in it.
    """
    image = parse_image(reference)
    if image_here(caller.environ):
        raise UsageError(
            "--container was given in a container",
            why="this cuwheel was itself started by --container",
            fix="leave it out",
        )
    path = caller.search_path
    programs = (program,) if program else ENGINES
    engine = next((name for name in programs if which(name, path)), "")
    if not engine:
        raise SandboxError(
            f"{program} is not installed" if program else "neither podman nor docker is installed",
            why="--container needs one of them to run the build in an image",
            fix="install podman, which needs neither a daemon nor root (Debian, Ubuntu: `apt-get "
            "install podman uidmap slirp4netns`), or run without --container",
        )
    _obtain(engine, image, console, caller.environ, offline=offline)
    return _look_inside(engine, image, caller)


def _obtain(
    program: str, image: Image, console: Console, environ: Mapping[str, str], *, offline: bool
) -> None:
    """Pull the image where it isn't on this machine."""
    inspected = _ask(program, environ, "image", "inspect", "--format", "{{.Id}}", image.reference)
    if not inspected.status:
        return
    if not _UNKNOWN.search(inspected.output):
        raise engine_failed(program, inspected.output)
    missing = f"{program} has no image {image.reference}"
    if not image.name:
        raise SandboxError(
            missing,
            why="an ID refers to an image on this machine only; registries don't know it",
            fix=f"`{program} image ls --no-trunc` lists the images; or write NAME@sha256:…",
        )
    if offline:
        raise SandboxError(
            missing,
            why="it isn't on this machine, and --offline allows no download",
            fix=f"`{program} pull {image.reference}` once, or `{program} load` it from a file",
        )
    console.note(f"{program} pulls {image.reference}")
    pulled = _ask(program, environ, "pull", "--quiet", image.reference)
    if pulled.status and _NO_RANGES.search(pulled.output):
        raise engine_failed(program, pulled.output)
    if pulled.status:
        raise SandboxError(
            f"{image.reference} could not be pulled",
            why=_last_line(pulled.output),
            fix=f"check that the registry can be reached (`{program} login`, if it needs a login), "
            "and that it has an image with this name and digest",
        )


def _look_inside(program: str, image: Image, caller: Caller) -> Container:
    """Find the image's Python and compiler that cuwheel can use."""
    options = (*_run_options(program, caller.environ)[1:], "--network", "none")
    output = _ask(program, caller.environ, *options, image.reference, "sh", "-c", _PROBE).output
    lines = output.splitlines()
    compilers = [line.partition(" ")[2] for line in lines if line.startswith("compiler ")]
    if not compilers:
        raise engine_failed(program, output)
    pythons = [line for line in lines if line.startswith("/")]
    if not pythons:
        raise SandboxError(
            f"{image.reference} has no Python that cuwheel can run on",
            why=f"none of {', '.join(_PYTHONS)} on its PATH is 3.10 or newer and has venv and "
            "ensurepip",
            fix="use an image that has one, such as manylinux's; or install one in it (Debian, "
            "Ubuntu: `apt-get install python3-venv python3-dev`), and give the new image's digest",
        )
    return Container(
        program=program, image=image, python=pythons[0], caller=caller, compiler=compilers[0]
    )


def _run_options(program: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return `run` with the options of every container: no privilege, a neutral host name."""
    # So that files that it writes are ours: root of a rootless engine is its starter; docker's
    # daemon would make it the machine's.
    is_rootless = program == "podman" or "name=rootless" in _ask(program, environ, "info").output
    return (
        *(program, "run", "--rm", "--pull", "never", "--hostname", "cuwheel"),
        *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
        # SELinux lets no container read a user's files, unless they are given its label.
        *("--security-opt", "label=disable"),
        *(() if is_rootless else ("--user", f"{os.getuid()}:{os.getgid()}")),
        *("--env", "HOME=/tmp", "--entrypoint", ""),
    )


def _ask(program: str, environ: Mapping[str, str], *arguments: str) -> Finished:
    return run([program, *arguments], env=environ, check=False)


def engine_failed(program: str, output: str) -> SandboxError:
    """Return the error for an engine that failed; its output is empty if the terminal has it."""
    fix = f"check that `{program} run --rm IMAGE true` works for you"
    if _NO_DAEMON.search(output):
        fix = "start docker's daemon, and check that you may use it; or use podman, which has none"
    elif program == "podman" and _NO_RANGES.search(output):
        fix = (
            "assign subordinate ids to your user: `sudo usermod --add-subuids 100000-165535 "
            "--add-subgids 100000-165535 $USER`, `podman system migrate`; newuidmap (Debian: "
            "uidmap) has to be installed"
        )
    return SandboxError(
        f"{program} can't run a container here",
        why=_last_line(output) or f"{program} printed the reason above",
        fix=fix,
    )


def _last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip() and "level=warning" not in line]
    return lines[-1] if lines else ""
