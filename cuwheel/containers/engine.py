"""podman or docker: find it, get the image, and run cuwheel in it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.containers.refusals import (
    engine_refused,
    image_missing,
    no_python_inside,
    pull_failed,
)
from cuwheel.paths import project_folder
from cuwheel.system.compilers import SYSTEM_PATH
from cuwheel.system.process import Finished, attach, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuwheel.containers.image import Image
    from cuwheel.containers.mounts import Shared
    from cuwheel.system.console import Console


ENGINES = ("podman", "docker")

# podman-image-inspect(1), docker: "image not known", "No such image: …".
_UNKNOWN = re.compile(r"(?i)image not known|no such image")

# What podman(1) and docker exit with when they themselves failed, and nothing ran.
_ENGINE_FAILED = (125, 126, 127)

_PYTHONS = " ".join(f"python3{minor}" for minor in ("", ".14", ".13", ".12", ".11", ".10"))
_USABLE = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))"
_PROBE = f"""
for name in {_PYTHONS}; do
    if "$name" -c '{_USABLE}' 2>/dev/null; then command -v "$name"; break; fi
done
echo "compiler $(command -v g++)"
"""


@dataclass(frozen=True, kw_only=True)
class Inside:
    """What an image has.

    Attributes:
        python: the first on its PATH that cuwheel can run on.
        compiler: the `g++` that is first on its PATH; empty where there is none.
    """

    python: str
    compiler: str

    def choices(self) -> tuple[str, ...]:
        """Options by which cuwheel takes a compiler of which only the image's PATH knows.

        Such as manylinux's; beside it, cuwheel looks in the system's folders only.
        """
        is_found = not self.compiler or os.path.dirname(self.compiler) in SYSTEM_PATH.split(":")  # noqa: PTH120 - as text, of another root
        return () if is_found else ("--env", f"CXX={self.compiler}")


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A program that runs containers, by the name that it is started with."""

    program: str

    def obtain(self, image: Image, console: Console, *, offline: bool) -> None:
        """See that the image is on this machine, and pull it where it isn't.

        Raises:
            ContainerError: it isn't and can't be pulled, or the engine doesn't work here.
        """
        found = self._ask("image", "inspect", "--format", "{{.Id}}", image.reference)
        if not found.status:
            return
        if not _UNKNOWN.search(found.output):
            raise engine_refused(self.program, found.output)
        if offline or not image.name:
            raise image_missing(self.program, image)
        console.note(f"{self.program} pulls {image.reference}")
        pulled = self._ask("pull", "--quiet", image.reference)
        if pulled.status:
            raise pull_failed(self.program, image, pulled.output)

    def look_inside(self, image: Image) -> Inside:
        """Ask the image what cuwheel can run on and compile with.

        Raises:
            ContainerError: it has no such Python, or no container can be started.
        """
        command = (*self._run(), "--network", "none", image.reference, "sh", "-c", _PROBE)
        said = run(command, env=os.environ, check=False)
        lines = said.output.splitlines()
        compilers = [line.partition(" ")[2] for line in lines if line.startswith("compiler ")]
        if not compilers:
            raise engine_refused(self.program, said.output)
        pythons = [line for line in lines if line.startswith("/")]
        if not pythons:
            raise no_python_inside(image, _PYTHONS)
        return Inside(python=pythons[0], compiler=compilers[0])

    def run_cuwheel(
        self, arguments: Sequence[str], image: Image, inside: Inside, shared: Shared, *, name: str
    ) -> int:
        """Run a command of cuwheel in the image, on our own terminal, to its end.

        Whatever ends this call, or this process, ends the container too.

        Args:
            arguments: of `python -m cuwheel`.
            image: where; it has been obtained.
            inside: what `look_inside` found.
            shared: what of this machine the container has, the network among it.
            name: of the container, as yet unused.

        Returns:
            Its exit code.

        Raises:
            ContainerError: the engine could not start it.
        """
        network = () if shared.network else ("--network", "none")
        start = (inside.python, "-sE", "-m", "cuwheel.bootstrap", "engine", "-m", "cuwheel")
        status = attach(
            [
                *self._run(),
                *(
                    "--name",
                    name,
                    "--workdir",
                    str(project_folder()),
                    *network,
                    *shared.options(image),
                ),
                *inside.choices(),
                *(image.reference, *start, *arguments),
            ],
            env={**os.environ, **shared.passed},
            when_killed=(self.program, "rm", "--force", name),
        )
        if status in _ENGINE_FAILED:
            raise engine_refused(self.program, "")
        return status

    def _run(self) -> tuple[str, ...]:
        """`run` with what every container gets: no privilege, a host name that says nothing."""
        return (
            *(self.program, "run", "--rm", "--pull", "never", "--hostname", "cuwheel"),
            *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
            # SELinux lets no container read a user's files, unless they are given its label.
            *("--security-opt", "label=disable"),
            *self._user(),
            *("--env", "HOME=/tmp", "--entrypoint", ""),
        )

    def _user(self) -> tuple[str, ...]:
        """Who a container is, so that what it writes is ours.

        Of a rootless engine its root is who started it; docker's daemon would make it the
        machine's.
        """
        if self.program == "podman" or "name=rootless" in self._ask("info").output:
            return ()
        return ("--user", f"{os.getuid()}:{os.getgid()}")

    def _ask(self, *arguments: str) -> Finished:
        return run([self.program, *arguments], env=os.environ, check=False)
