"""The facts about a command's caller: variables and folders, read once and handed down.

Standard library only, as `cuwheel.base.paths`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from cuwheel.base import paths
from cuwheel.base.project_trust import is_trusted


@dataclass(frozen=True, eq=False)
class Caller:
    """The variables of a command's caller, and the folders that follow from them.

    Each folder is looked up at its first use: some commands need none.
    """

    environ: Mapping[str, str] = field(repr=False)  # it may hold secrets

    @cached_property
    def cache(self) -> Path:
        """`CUWHEEL_CACHE`, else `cuwheel` in the user's cache folder (XDG base directories)."""
        chosen = self.environ.get("CUWHEEL_CACHE")
        if chosen:
            return Path(chosen).expanduser().absolute()
        caches = self.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(caches).absolute() / "cuwheel"

    @cached_property
    def project(self) -> Path:
        """The folder that holds `work/`, `dist/` and `reports/`.

        The project; where there is none the first of `CUWHEEL_PROJECT`, else the working directory.
        """
        return paths.find_project() or next(iter(self._named_projects()), None) or Path.cwd()

    @cached_property
    def roots(self) -> tuple[Path, ...]:
        """The folders with `recipes/`, `envs/` and `patches/`, the first of which counts.

        Those in `CUWHEEL_PROJECT`, separated by `:`, so that recipes can be kept in several places;
        then the project that the working directory is in, if the user trusts it; then cuwheel's own
        folder, whose `envs/` has locks of toolchains and Pythons.
        """
        project = paths.find_project()
        roots = [*self._named_projects()]
        if project and (project == paths.ROOT or is_trusted(project, self.environ)):
            roots.append(project)
        return tuple(dict.fromkeys((*roots, paths.ROOT)))

    def _named_projects(self) -> tuple[Path, ...]:
        named = self.environ.get("CUWHEEL_PROJECT", "").split(os.pathsep)
        return tuple(Path(name).expanduser().absolute() for name in named if name)

    @property
    def search_path(self) -> str:
        """`PATH`, else the system's default for programs."""
        return self.environ.get("PATH", os.defpath)

    @property
    def folder(self) -> Path:
        """The folder where nox was started: nox changes folders."""
        return Path(self.environ.get("CUWHEEL_INVOKED_FROM") or Path.cwd())

    def path(self, text: str) -> Path:
        """Return a path of the command line, relative to where nox was started."""
        return (self.folder / Path(text).expanduser()).absolute()

    def shown(self, path: Path) -> str:
        """Return a path as it is typed where nox was started: relative if it is in that folder."""
        start = self.folder.absolute()
        return str(path.relative_to(start) if path.is_relative_to(start) else path)


def read_caller() -> Caller:
    """Return the facts about this process's caller, as they are now."""
    return Caller(MappingProxyType(dict(os.environ)))
