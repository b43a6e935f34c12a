"""A Python environment's program where it sees that environment, what it is given, and no more.

For what runs beside a build: the load proof, imports that only see whether something works, probes
of performance. Everything has this machine's paths, so what a program says of files can be taken as
it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.sandbox.backends import Mount, gpu_mounts, is_of_system, sandboxed
from cuwheel.sandbox.prefixes import interpreter_mounts
from cuwheel.system.files import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """Where a program of an environment runs.

    Attributes:
        sandbox: its kind, from `choose_sandbox`.
        environment: folder of the Python environment, links followed; for reading.
        base: the interpreter that it was made from; None: one that `system` holds.
        folder: the one that may be written, links followed; `tmp` in it is `/tmp` too.
        read: more files and folders, for reading.
        covered: files and folders that can't be seen, although what they are in can.
        decoy: what takes the place of covered files; None: an empty file.
        has_gpu: whether the GPUs' devices are there.
        system: takes the place of the machine's system folders; None: these.
        emulator: words before each program, where it is another kind of machine's.
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
        """Whether there is a sandbox at all."""
        return self.sandbox != "none"

    def command(self, words: Iterable[str | Path]) -> list[str]:
        """A program and its arguments, as they are to be run here; it starts in `folder`."""
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        prefix = (
            sandboxed(self.sandbox, self._mounts(), self.folder, self.system)
            if self.is_sandboxed
            else ()
        )
        return [*prefix, *self.emulator, *map(str, words)]

    def empty(self) -> None:
        """Remove all that programs have written."""
        remove_tree(self.folder)

    def _mounts(self) -> Iterator[Mount]:
        shown = [*interpreter_mounts(self.base)] if self.base else []
        shown += [Mount(source=path, target=path) for path in (self.environment, *self.read)]
        yield from shown
        yield Mount(source=self.folder, target=self.folder, kind="write")
        tmp = self.folder / "tmp"
        yield Mount(source=tmp, target=type(tmp)("/tmp"), kind="write")  # noqa: S108
        if self.has_gpu:
            yield from gpu_mounts()
        roots = [mount.target for mount in shown]
        for path in self.covered:
            if is_of_system(path) or any(path.is_relative_to(root) for root in roots):
                yield self._cover(path)

    def _cover(self, path: Path) -> Mount:
        if self.decoy is None or path.is_dir():
            return Mount(source=path, target=path, kind="cover")
        return Mount(source=self.decoy, target=path)
