"""What a sandbox holds of a prefix: a folder with `bin` and `lib` that a program is installed in.

A Python or a compiler may be installed in a person's home folder, or in `~/.local`, beside keys and
settings: of such a prefix only the parts that programs live in are shown.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.sandbox.backends import Mount, is_of_system
from cuwheel.sandbox.libraries import foreign_libraries

if TYPE_CHECKING:
    from collections.abc import Iterator

_PARTS = ("bin", "include", "lib", "lib64", "libexec", "*-linux-gnu")


def prefix_mounts(prefix: Path, target: Path) -> Iterator[Mount]:
    """A prefix, for reading.

    Args:
        prefix: links followed.
        target: its path inside.
    """
    home = Path.home().resolve()
    if home.is_relative_to(prefix) or prefix == home / ".local":
        for part in sorted(part for name in _PARTS for part in prefix.glob(name)):
            yield Mount(source=part, target=target / part.name)
    else:
        yield Mount(source=prefix, target=target)


def interpreter_mounts(python: Path) -> Iterator[Mount]:
    """A Python where it is on this machine, with the links that lead to it and its libraries.

    Args:
        python: the interpreter; an absolute path.
    """
    prefix = python.resolve().parent.parent
    if not is_of_system(prefix):
        yield from prefix_mounts(prefix, prefix)
    yield from foreign_libraries(python.resolve(), prefix)
    link = python
    while link.parent.parent.resolve() != prefix and link.is_symlink():
        target = Path(os.path.normpath(link))
        if not is_of_system(target):
            yield Mount(source=link.readlink(), target=target, kind="link")
        link = link.parent / link.readlink()
    # The last may name the prefix by a link too, as uv's and pyenv's short names of releases do. No
    # link is made of that one: other mounts may lie below it.
    named = Path(os.path.normpath(link.parent.parent))
    is_alias = named != prefix and named.resolve() == prefix
    if is_alias and not is_of_system(named):
        yield from prefix_mounts(prefix, named)
