"""Causes found by experiment: what fails is run again with one thing changed, until it works.

No experiment changes a file: settings below the home folder are copied into an empty one, and
modules are hidden from the import alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.regular_files import copy_regular, read_text
from cuwheel.check.diagnose.facts.environment import Distribution, PythonEnvironment
from cuwheel.check.diagnose.facts.installed_files import module_files, named_files
from cuwheel.check.diagnose.facts.probe import Experiment

EXPERIMENTS_TIME_LIMIT = 60.0  # seconds for all experiments of a report
_RUNS = 30  # experiments with one import
_FILES = 8  # settings that are tried one by one
_SIZE = 1 << 26  # bytes of a setting that is copied
_RESOLVED = 5  # modules that turn out to be required though nothing declares them
_NO_SETTINGS = frozenset({"HOME", "OLDPWD", "PWD", "PYTHONPATH", "PYTHONUSERBASE", "TMPDIR"})
_FRAME = re.compile(r'File "(/[^"]+)", line \d+')
_LACKING = re.compile(r"No module named '([\w.]+)'")
_PLUGINS = re.compile(r"^\[(?!console_scripts|gui_scripts)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """What makes a failure vanish.

    Attributes:
        kind: `file` below the home folder; `home`, any there; `module`, a file that no package
            has; `package`; `entry` of `sys.path`; `startup` file; empty: nothing does.
        trials: the experiments and their results.
        path: the file or folder; of no kind, the deepest file of the failure.
        project: the package; of no kind, the one with that file.
        failure: of the package alone.
        rest: how it fails without the cause; empty: it works.
        is_cut: the experiments ended at their limit.
    """

    kind: str = ""
    trials: tuple[str, ...] = ()
    path: Path | None = None
    project: str = ""
    failure: str = ""
    rest: str = ""
    is_cut: bool = False

    @property
    def evidence(self) -> str:
        """The experiments in a line."""
        return "; ".join(self.trials)


class Run(NamedTuple):
    """The result of an experiment: the end of a traceback, and what `experiment.py` records."""

    failure: str
    seen: Mapping[str, Any]

    @property
    def exception(self) -> str:
        """The last line of the traceback."""
        return self.failure.rpartition("\n")[2]


@dataclass
class Isolator:
    """The experiments with one import that fails.

    Args:
        call: runs it once.
        end: when experiments end, by `time.monotonic`.
        project: that is imported.
        required: by that project, directly or not.
        alone: imports another distribution alone, and returns its failure.
    """

    call: Callable[[Mapping[str, str], Experiment], Run]
    environment: PythonEnvironment
    environ: Mapping[str, str]
    end: float
    project: str
    required: frozenset[str]
    alone: Callable[[Distribution, float], str]
    runs: int = 0
    trials: list[str] = field(default_factory=list)

    def isolate(self) -> Isolation | None:
        """Return the cause; one of no kind where no experiment finds it; None: it doesn't fail."""
        first = self._run()
        if not first.failure:
            return None
        self._first = first
        for search in (self._home, self._hidden, self._entries, self._startup):
            if found := search():
                return replace(found, trials=(*self.trials,))
        file, owner = next(self._frames(), ("", None))
        return Isolation(
            trials=(*self.trials,),
            path=Path(file) if file else None,
            project=owner.name if owner else "",
            is_cut=self._is_over(),
        )

    def _is_over(self) -> bool:
        return time.monotonic() >= self.end or self.runs >= _RUNS

    def _run(
        self,
        environ: Mapping[str, str] | None = None,
        options: tuple[str, ...] = (),
        **request: Sequence[str],
    ) -> Run:
        """Run it with other variables, options of the interpreter, and `changes` of the probe."""
        if self._is_over():
            return Run("no experiment is left", {})
        self.runs += 1
        seconds = max(1.0, self.end - time.monotonic())
        experiment = Experiment(seconds=seconds, options=options, request=request)
        return self.call(self.environ if environ is None else environ, experiment)

    def _note(self, without: str, *, works: bool) -> None:
        self.trials.append(f"{without} {'it works' if works else 'it fails too'}")

    def again(self, known: Iterable[Isolation | None]) -> Isolation | None:
        """Return the module or package of another failure, if this one vanishes without it too."""
        causes = [one for one in known if one and one.kind in {"module", "package"}]
        for one in causes if causes and self._run().failure else ():
            part = str(one.path) if one.kind == "module" else one.project
            if not self._without([part]).failure:
                return replace(one, trials=(f"without {part} it works",))
        return None

    # Settings below the home folder.

    def _home(self) -> Isolation | None:
        folders = self._homes()
        read = list(self._settings(folders))
        if not read and self._first.seen.get("frames"):
            return None  # nothing is read there
        with temporary_folder() as empty:
            rest = self._run(self._at_home(folders, empty)).exception
        end = f"it fails with {rest}" if rest else "it works"
        is_same = rest == self._first.exception
        self.trials.append(f"with an empty home folder {'it fails too' if is_same else end}")
        for name, path in [] if is_same else read[:_FILES]:
            with temporary_folder() as other:
                target = other / name / path.relative_to(folders[name])
                environ = self._at_home(folders, other)
                is_copy = _copy(path, target)
                if is_copy and self._run(environ).exception == self._first.exception:
                    self.trials.append(f"with {path} as the only file there it fails as before")
                    return Isolation(kind="file", path=path, rest=rest)
        return None if rest else Isolation(kind="home", path=folders["HOME"])

    def _homes(self) -> dict[str, Path]:
        """Return the folders with a user's settings, by variable; the home folder is the last."""
        home = self.environ.get("HOME") or str(Path.home())
        opened = list(map(Path, self._first.seen.get("opened", ())))
        named = {
            name: Path(value)
            for name, value in self.environ.items()
            if value.startswith("/") and name not in _NO_SETTINGS and value != home
        }
        used = {
            name: folder
            for name, folder in named.items()
            if any(folder in path.parents for path in opened)
            if not self.environment.prefix.is_relative_to(folder)
        }
        return {**used, "HOME": Path(home)}

    def _settings(self, folders: Mapping[str, Path]) -> Iterator[tuple[str, Path]]:
        """Yield what was read in these folders, the last first, without packages."""
        installed = (self.environment.prefix, *self.environment.sites)
        for path in map(Path, reversed(self._first.seen.get("opened", ()))):
            name = next((one for one in folders if path.is_relative_to(folders[one])), "")
            is_setting = name and path != folders[name] and os.path.lexists(path)
            if is_setting and not any(map(path.is_relative_to, installed)):
                yield name, path

    def _at_home(self, folders: Mapping[str, Path], other: Path) -> dict[str, str]:
        """Return the variables with other such folders; packages below the home folder stay."""
        base = self.environ.get("PYTHONUSERBASE") or str(folders["HOME"] / ".local")
        own = {name: str(other / name) for name in folders}
        for folder in own.values():
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        kept = {name: value for name, value in self.environ.items() if name[:4] != "XDG_"}
        return {**kept, "PYTHONUSERBASE": base, **own}

    # Modules that the import can do without.

    def _hidden(self) -> Isolation | None:
        own = {self.project, *self.required}
        files = [*self._first.seen.get("frames", ()), *_FRAME.findall(self._first.failure)]
        files += [*self._first.seen.get("origins", {}).values()]
        owners = [self._owner_of(file) for file in dict.fromkeys(files)]
        named = [owner.name for owner in owners if owner]
        named += [one.name for one in self.environment.distributions.values() if _is_plugin(one)]
        optional = [name for name in dict.fromkeys(named) if name not in own]
        pairs = zip(dict.fromkeys(files), owners, strict=True)
        loose = [file for file, owner in pairs if owner is None and self._is_loose(file)]
        found = self._smallest([*loose, *optional])
        if not found or found in loose:
            return Isolation(kind="module", path=Path(found)) if found else None
        distribution = self.environment.distributions[found]
        failure = self.alone(distribution, max(1.0, self.end - time.monotonic()))
        return Isolation(kind="package", project=found, failure=failure)

    def _smallest(self, parts: list[str]) -> str:
        """Return the part without which it works; empty: none, or more than one at once."""
        run = Run("there is none", {})
        for _ in range(_RESOLVED if parts else 0):
            run = self._without(parts)
            lacking = _LACKING.search(run.exception)
            needed = self._needed(lacking[1]) if lacking else set()
            if not run.failure or not needed.intersection(parts):
                break
            parts = [part for part in parts if part not in needed]  # required, but not declared
        if not parts or run.failure:
            return ""
        while len(parts) > 1:
            half = len(parts) // 2
            works = not self._without(parts[:half]).failure
            parts = parts[:half] if works else parts[half:]
        works = not self._without(parts).failure
        self._note(f"without {parts[0]}", works=works)
        return parts[0] if works else ""

    def _without(self, parts: Sequence[str]) -> Run:
        """Run it while the modules and metadata of some packages, and some files, are hidden."""
        hidden: list[str] = []
        for part in parts:
            own = self.environment.distributions.get(part)
            hidden += [*self._roots(own), str(own.metadata)] if own else [part]
        return self._run(hidden=hidden)

    def _needed(self, module: str) -> set[str]:
        """Return the packages and files that have a module, which is required, it turns out."""
        top = module.partition(".")[0]
        installed = self.environment.distributions.values()
        named = {own.name for own in installed if top in {_stem(one) for one in self._tops(own)}}
        files = (file for name, file in self._first.seen.get("origins", {}).items() if name == top)
        return named.union(files)

    # Folders of `sys.path`.

    def _entries(self) -> Isolation | None:
        own = self.environment.distributions[self.project].site
        for entry in [one for one in self._folders if one != own][:_FILES]:
            rest = [str(one) for one in self.environment.sites if one != entry]
            works = not self._run(path=rest).failure
            self._note(f"without {entry} on sys.path", works=works)
            if works:
                return Isolation(kind="entry", path=entry)
        return None

    @cached_property
    def _folders(self) -> list[Path]:
        """Folders of `sys.path` without those of Python's own modules."""
        library = self.environment.scheme.get("stdlib", Path("/nonexistent"))
        own = {library, library / "lib-dynload"}
        return [one for one in self.environment.sites if one not in own and one.suffix != ".zip"]

    # What each start of Python runs.

    def _startup(self) -> Isolation | None:
        sites = [site for site in self.environment.sites if site.is_dir()]
        files = [str(file) for site in sites for file in _startup_files(site)]
        path = list(map(str, self.environment.sites))
        if not files:
            return None
        works = not self._run(options=("-S",), path=path).failure
        self._note("without startup files", works=works)
        for file in files if works else ():
            if self._run(options=("-S",), path=path, startup=[file]).failure:
                self.trials.append(f"with {file} alone it fails")
                return Isolation(kind="startup", path=Path(file))
        return None

    # Who has the files.

    def _frames(self) -> Iterator[tuple[str, Distribution | None]]:
        """Yield the files of the failure, the deepest first, without Python's own."""
        seen = (*self._first.seen.get("frames", ()), *_FRAME.findall(self._first.failure))
        for file in dict.fromkeys(seen):
            if (owner := self._owner_of(file)) or self._is_loose(file):
                yield file, owner

    @cached_property
    def _owners(self) -> dict[str, Distribution]:
        installed = self.environment.distributions.values()
        return {str(path): own for own in installed for path in named_files(own)}

    def _owner_of(self, file: str) -> Distribution | None:
        return self._owners.get(os.path.normpath(file))

    def _is_loose(self, file: str) -> bool:
        """Return True for a module on the path that no distribution has."""
        path = Path(file)
        return any(map(path.is_relative_to, self._folders)) and path.is_file()

    @cached_property
    def _shared(self) -> frozenset[str]:
        """Names of folders of modules that several distributions have: `nvidia`."""
        installed = self.environment.distributions.values()
        count = Counter(top for own in installed for top in self._tops(own))
        return frozenset(top for top, number in count.items() if number > 1)

    def _tops(self, own: Distribution) -> set[str]:
        return {
            str(own.site / file.path.relative_to(own.site).parts[0]) for file in module_files(own)
        }

    def _roots(self, own: Distribution) -> set[str]:
        """Return the files and folders of a distribution's modules."""
        parts = [file.path.relative_to(own.site).parts for file in module_files(own)]
        return {
            str(own.site.joinpath(*names[: 2 if str(own.site / names[0]) in self._shared else 1]))
            for names in parts
        }


def _stem(path: str) -> str:
    return Path(path).name.partition(".")[0]


def _startup_files(site: Path) -> Iterator[Path]:
    for file in sorted(site.glob("*.pth")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if re.search(r"^import[ \t]", read_text(file), re.MULTILINE):
                yield file
    names = ("sitecustomize.py", "usercustomize.py")
    yield from (site / name for name in names if (site / name).is_file())


def _is_plugin(own: Distribution) -> bool:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return bool(_PLUGINS.search(read_text(own.metadata / "entry_points.txt")))
    return False


def _copy(source: Path, target: Path) -> bool:
    """Copy a small file; a folder is made empty."""
    try:
        if source.is_dir():
            target.mkdir(parents=True)
            return False  # which other programs make too
        if not source.is_file() or source.stat().st_size > _SIZE:
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_regular(source, target)
    except OSError:
        return False
    return True
