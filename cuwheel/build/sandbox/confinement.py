"""Confinement of a Python environment's program to that environment and its inputs.

For programs outside of a build: the load proof, imports that only test whether something works,
probes of performance. All has this machine's paths, so a program's paths can be taken as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from cuwheel.base.system.files import remove_tree
from cuwheel.build.sandbox.backends import sandboxed
from cuwheel.build.sandbox.mounts import Mount, gpu_mounts, interpreter_mounts, is_of_system


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """The view and the rights of an environment's program.

    Attributes:
        sandbox: its kind, from `choose_sandbox`.
        environment: folder of the Python environment, links followed; for reading.
        base: the interpreter that it was made from; None: one that `system` holds.
        folder: the one that may be written, links followed; `tmp` in it is `/tmp` too.
        covered: files and folders that can't be seen, although their folder can.
        decoy: takes the place of covered files; None: an empty file.
        system: takes the place of the machine's system folders; None: these.
    """

    sandbox: str
    environment: Path
    base: Path | None
    folder: Path
    read: tuple[Path, ...] = ()
    covered: tuple[Path, ...] = ()
    decoy: Path | None = None
    has_gpu: bool = False
    system: tuple[Mount, ...] | None = None
    emulator: tuple[str, ...] = ()

    @property
    def is_sandboxed(self) -> bool:
        """True if there is a sandbox at all."""
        return self.sandbox != "none"

    def command(self, argv: Iterable[str | Path]) -> list[str]:
        """Return a command as it is to be run here; it starts in `folder`."""
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        prefix = (
            sandboxed(self.sandbox, self._mounts(), self.folder, self.system)
            if self.is_sandboxed
            else ()
        )
        return [*prefix, *self.emulator, *map(str, argv)]

    def command_in(
        self, folder: Path, read: tuple[Path, ...], argv: Iterable[str | Path]
    ) -> list[str]:
        """Return `command` with another folder that may be written, and more to read."""
        return replace(self, folder=folder, read=(*self.read, *read)).command(argv)

    def empty(self) -> None:
        """Remove all files that programs have written."""
        remove_tree(self.folder)

    def _mounts(self) -> Iterator[Mount]:
        shown = [*interpreter_mounts(self.base)] if self.base else []
        shown += [Mount(source=path, target=path) for path in (self.environment, *self.read)]
        yield from shown
        yield Mount(source=self.folder, target=self.folder, kind="write")
        tmp = self.folder / "tmp"
        yield Mount(source=tmp, target=Path("/tmp"), kind="write")  # noqa: S108
        if self.has_gpu:
            yield from gpu_mounts()
        roots = [mount.target for mount in shown]
        for path in self.covered:
            if is_of_system(path) or any(path.is_relative_to(root) for root in roots):
                decoy = None if path.is_dir() else self.decoy
                kind = "read" if decoy else "cover"
                yield Mount(source=decoy or path, target=path, kind=kind)


def confine_environment(
    python: Path, prefix: Path, sites: Iterable[Path], sandbox: str, folder: Path
) -> Confinement:
    """Return the confinement of a caller's environment, with the GPUs."""
    shown, base = tuple(path for path in sites if path.exists()), python
    # The interpreter that a virtual environment was made from; any other is its own.
    while base.is_symlink() and base.is_relative_to(prefix):
        base = Path(os.path.normpath(base.parent / base.readlink()))
    # Only of a virtual environment everything is shown: another prefix may be a home folder.
    is_virtual = not base.is_relative_to(prefix)
    inner = next((path for path in shown if path.is_relative_to(prefix)), python)
    return Confinement(
        sandbox=sandbox,
        environment=prefix if is_virtual else inner,
        base=base,
        folder=folder.resolve(),
        read=tuple(path for path in shown if not (is_virtual and path.is_relative_to(prefix))),
        has_gpu=True,
    )
