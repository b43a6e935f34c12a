"""The wheel to measure: its recipe and probe, its installed distribution, its neighbours.

In an installed wheel, rpaths such as `$ORIGIN/../nvidia/cu13/lib` lead to another package's folder.
An unpacked one gets links in their place, and nothing else of these packages: modules still come
from the environment, since a folder without `__init__.py` hides none (PEP 420). The loader doesn't
shorten `lib/..`, so that a library behind a link finds its own neighbours.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from cuwheel.base.errors import ProbeError, UsageError, suggest
from cuwheel.base.formats.binaries.elf import is_elf, read_elf
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import open_file, parse_json
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.recipe import Framework, Recipe

_TAG = re.compile(r"cu(\d+)")  # of a local version: cu130torch2.11
_FOLDERS = "import json, sys; print(json.dumps(sys.path))"


@dataclass(frozen=True, kw_only=True)
class ChosenWheel:
    """A wheel and its recipe; `tag` is the toolkit's, `130`, empty if the name has none."""

    path: Path
    entry: CatalogueEntry
    tag: str
    sha256: str

    @property
    def python(self) -> str:
        """The release of Python that it is for, `3.12`; empty: several."""
        tags = parse_wheel_filename(self.path.name)[3]
        interpreters = {tag.interpreter for tag in tags if tag.abi.startswith(tag.interpreter)}
        [only] = interpreters if len(interpreters) == 1 else [""]
        return f"3.{only.removeprefix('cp3')}" if only.startswith("cp3") else ""


def read_wheel(path: Path, entries: Iterable[CatalogueEntry]) -> ChosenWheel:
    """Return a wheel from a path, of this project or any other, with its package's recipe.

    Raises:
        UsageError: there is no such file, it is no wheel, or no recipe is for its package.
    """
    if not path.is_file():
        raise UsageError(
            f"there is no wheel {path}",
            why="no file has this name",
            fix="nox -l lists what can be built; built wheels are in dist/",
        )
    try:
        project, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as problem:
        raise UsageError(
            f"{path.name} is not a wheel", why=str(problem), fix="give a .whl file"
        ) from None
    match = _TAG.match(version.local or "")
    tag = match[1] if match else ""
    known = [entry for entry in entries if entry.recipe]
    fitting = [entry for entry in known if entry.recipe and project in _projects(entry.recipe)]
    if not fitting:
        raise UsageError(
            f"there is no recipe for {project}, so there is no probe to measure it with",
            why=suggest(project, [entry.name for entry in known]),
            fix=f"the probes are in recipes/perf/; `nox -s new -- {project}` drafts a recipe",
        )

    def fits(entry: CatalogueEntry) -> tuple[bool, bool]:
        """Rank the recipes of one package by release, then toolkit."""
        is_release = entry.recipe is not None and entry.recipe.version == version.public
        return is_release, any(name.endswith(f"-{tag}") for name in entry.target_names)

    return ChosenWheel(
        path=path, entry=max(fitting, key=fits), tag=tag, sha256=sha256_of_file(path)
    )


def newest_wheel(
    dist: Path, entries: Iterable[CatalogueEntry], target: tuple[CatalogueEntry, str] | None
) -> ChosenWheel | None:
    """Return a folder's newest wheel with a probe, of any recipe or of one with a toolkit's tag."""
    entries = tuple(entries)
    known = {name for entry in entries if entry.recipe for name in _projects(entry.recipe)}
    paths = []
    for path in dist.glob("*.whl"):
        try:
            project, version, _, _ = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        if project not in known:
            continue
        if target and target[0].recipe:
            is_of_recipe = project in _projects(target[0].recipe)
            tag = _TAG.match(version.local or "")
            if not is_of_recipe or not tag or tag[1] != target[1]:
                continue
        paths.append(path)
    newest = sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)
    chosen = (read_wheel(path, entries) for path in newest)
    return next((wheel for wheel in chosen if probe_of(wheel.entry).is_file()), None)


def probe_of(entry: CatalogueEntry) -> Path:
    """Return the path of a recipe's probe, which may not exist."""
    name = entry.recipe.folder if entry.recipe else entry.name
    return entry.root / "recipes" / "perf" / f"{name}.py"


def check_probe(entry: CatalogueEntry) -> Path:
    """Return the file of a recipe's probe; raises UsageError."""
    probe = probe_of(entry)
    if not probe.is_file():
        names = sorted(path.stem for path in probe.parent.glob("*.py"))
        raise UsageError(
            f"{entry.name} has no performance probe",
            why=f"{probe} doesn't exist; there are probes for {', '.join(names)}",
            fix="write one as described in CONTRIBUTING.md: what to call, the reference, bytes, "
            "operations",
        )
    return probe


def check_framework(wheel: ChosenWheel, framework: Framework | None) -> None:
    """Check that an environment's framework has the release in a wheel's version.

    Raises:
        UsageError: it has another one.
    """
    named = re.search(rf"{framework.name}(\d+\.\d+)", wheel.path.name) if framework else None
    if not (framework and named) or f"{framework.version}.".startswith(f"{named[1]}."):
        return
    raise UsageError(
        f"no environment can be made for {wheel.path.name}",
        why=f"it is for {framework.name} {named[1]}; without the provenance that cuwheel writes "
        f"beside a wheel only its recipe is known, which is for {framework.version}",
        fix=f"put {wheel.path.name}.provenance.json beside it, or give the interpreter of an "
        "environment with its requirements: -- --python /path/to/bin/python",
    )


def _projects(recipe: Recipe) -> frozenset[str]:
    names = {recipe.name}
    if recipe.wheel_name:
        majors = {release.partition(".")[0] for release in recipe.toolkits}
        names |= {recipe.wheel_name.format(cuda=major) for major in majors}
    return frozenset(canonicalize_name(name) for name in names)


@dataclass(frozen=True, kw_only=True)
class MeasuredPackage:
    """An installed distribution; its name has the release: `causal-conv1d 1.6.1`."""

    name: str
    libraries: tuple[Path, ...]
    sha256: str


def find_package(module_file: str, module: str) -> MeasuredPackage:
    """Return the distribution that installed a module; raises ProbeError."""
    path = Path(module_file)
    depth = module.count(".") + (2 if path.name.startswith("__init__.") else 1)
    site = path.parents[depth - 1]
    module_path = str(path.relative_to(site))
    for item in importlib.metadata.distributions(path=[str(site)]):
        record = item.read_text("RECORD") or ""
        if module_path not in record:
            continue
        names = [row[0] for row in csv.reader(record.splitlines()) if row]
        if module_path in names:
            libraries = (site / name for name in names if ".so" in name.rpartition("/")[2])
            return MeasuredPackage(
                name=f"{item.metadata['Name']} {item.version}",
                libraries=tuple(sorted(library for library in libraries if library.is_file())),
                sha256=hashlib.sha256(record.encode()).hexdigest(),
            )
    raise ProbeError(
        f"{module} was imported from {path}, which no installed package lists",
        why="a folder of that name was found before the installed package, or it is installed in "
        "editable mode",
        fix="run this from another folder, remove it from PYTHONPATH, or give a wheel: --wheel "
        "FILE",
    )


def link_neighbours(folder: Path, python: Path, environ: Mapping[str, str]) -> None:
    """Link the folders of an environment's packages that the rpaths of a wheel's libraries name.

    Raises:
        CommandFailedError: the interpreter can't be run.
        ElfFormatError: a library of the wheel is damaged.
    """
    folder = folder.resolve()
    missing = {path for path in _searched(folder) if not (folder / path).exists()}
    if not missing:
        return
    env = {name: value for name, value in environ.items() if not name.startswith("PYTHON")}
    output = run([python, "-c", _FOLDERS], env=env).output
    sites = [Path(path) for path in parse_json(output.splitlines()[-1], is_own=True) if path]
    for path in sorted(missing):
        target = next((site / path for site in sites if (site / path).is_dir()), None)
        if target:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).symlink_to(target)


def _searched(folder: Path) -> Iterator[Path]:
    """Yield the folders in the rpaths of its libraries, relative to it."""
    for path in folder.rglob("*.so*"):
        with open_file(path) as stream:
            entries = read_elf(stream).search_path if is_elf(stream) else ()
        for entry in entries:
            place = entry.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(path.parent))
            target = Path(os.path.normpath(place))
            if target.is_relative_to(folder):
                yield target.relative_to(folder)
