"""The change of a recipe that takes it to another release of its framework.

Each release of a framework is built with one release of CUDA: a recipe without that gets it, with
what it declares for its newest one.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.errors import RecipeError, UsageError
from cuwheel.base.formats.binaries.archs import sorted_archs
from cuwheel.base.system.regular_files import copy_regular, read_bytes, read_text
from cuwheel.build.drafts.updates.file_changes import recipe_call, span_of
from cuwheel.build.drafts.updates.source_check import patch_folder
from cuwheel.build.recipe.catalogue import CatalogueEntry, load_catalogue
from cuwheel.build.recipe.recipe import Framework, Recipe
from cuwheel.build.recipe.recipe_check import check_recipe
from cuwheel.build.recipe.source import Folder
from cuwheel.check.cuda.toolkits import toolkit_by_release

_NAME = re.compile(r"[\w.\-]+(\[[^]]*\])?")
# A field's own lines of comments, and the indent of its line.
_COMMENTS_ABOVE = re.compile(r"^ +(?P<first>#.*\n(?: +#.*\n)*) *\Z", re.MULTILINE)
_NOT_COPIED = {"framework", "references"}  # of a release of CUDA, not of another one


@dataclass(frozen=True, kw_only=True)
class FrameworkChange:
    """A change of a recipe's file.

    Attributes:
        cuda: the release that the framework was built with, `13.2`.
        cxx_standard: the oldest C++ from this release of the framework on, `20`; empty: unchanged.
        requirements: new texts of `requires`, by the present ones.
    """

    framework: Framework
    cuda: str
    cxx_standard: str = ""
    requirements: Mapping[str, str] = field(default_factory=dict)

    def is_needed(self, recipe: Recipe) -> bool:
        """Return True if `--framework` alone doesn't build the recipe for this release."""
        return bool(self.cxx_standard or self.requirements or self.cuda not in recipe.toolkits)

    def summary(self, recipe: Recipe) -> tuple[str, ...]:
        """Return each change in a few words: `CUDA 13.2`, `C++20`."""
        lines = []
        if self.cuda not in recipe.toolkits:
            gone = [arch for arch in _newest_archs(recipe) if arch not in self._archs(recipe)]
            lines.append(f"CUDA {self.cuda}")
            lines += [f"without sm_{arch}" for arch in gone]
        lines += [f"C++{self.cxx_standard}"] if self.cxx_standard else []
        return (*lines, *(f"{old} → {new}" for old, new in self.requirements.items()))

    def text_of(self, entry: CatalogueEntry, recipe: Recipe) -> str:
        """Return the recipe's new text; comments and layout stay as they are.

        Raises:
            RecipeError: it isn't written as a literal.
        """
        path = entry.root / recipe.module
        text = read_text(path, limit=limits.PYTHON)
        edits = _Edits(text, path)
        self._edit_toolkits(edits, recipe)
        self._edit_framework(edits, recipe)
        for old, new in self.requirements.items():
            edits.replace_text("requires", old, new)
        if self.cxx_standard:
            major_minor = ".".join(self.framework.version.split(".")[:2])
            key = f"{self.framework.name}>={major_minor}"
            edits.insert_field("cxx_standard", {key: self.cxx_standard}, before="build")
        return edits.text()

    def _edit_toolkits(self, edits: _Edits, recipe: Recipe) -> None:
        if self.cuda in recipe.toolkits:
            return
        newest = recipe.toolkits[-1]
        edits.append("toolkits", json.dumps(self.cuda))
        archs = self._archs(recipe)
        if isinstance(recipe.archs, tuple) and archs != recipe.archs_for(newest):
            declared = dict.fromkeys(recipe.toolkits, recipe.archs) | {self.cuda: archs}
            edits.replace_field("archs", declared)
        edits.copy_entries(newest, self.cuda, {"archs": archs})

    def _edit_framework(self, edits: _Edits, recipe: Recipe) -> None:
        new = f'Framework(name="{self.framework.name}", version="{self.framework.version}")'
        edits.set_entry("framework", recipe.toolkits, self.cuda, new)

    def _archs(self, recipe: Recipe) -> tuple[str, ...]:
        """Return the archs of the newest toolkit that the new one's nvcc supports."""
        known = toolkit_by_release(self.cuda).archs
        return tuple(arch for arch in _newest_archs(recipe) if arch in known)


def _newest_archs(recipe: Recipe) -> tuple[str, ...]:
    return sorted_archs(recipe.archs_for(recipe.toolkits[-1]))


def changed_project(
    entry: CatalogueEntry, change: FrameworkChange, project: Path
) -> CatalogueEntry:
    """Write a project folder with the changed recipe and its patches, and load it from there.

    Raises:
        RecipeError: the text can't be edited, or the changed recipe isn't well formed.
    """
    recipe = entry.recipe
    if recipe is None:  # pragma: no cover - find_recipe has refused it
        raise RecipeError(f"{entry.name} can't be loaded", why=entry.fault)
    files = {recipe.module: change.text_of(entry, recipe).encode()}
    for patch in recipe.patches:
        content = read_bytes(patch_folder(entry) / patch.file, limit=limits.PATCH)
        files[f"patches/{recipe.folder}/{patch.file}"] = content
    if recipe.smoke.script:
        name = f"recipes/smoke/{recipe.smoke.script}"
        files[name] = read_bytes(entry.root / name, limit=limits.PYTHON)
    if isinstance(recipe.source, Folder):  # a source has to be inside of its project
        copy = project / recipe.source.path
        shutil.copytree(
            entry.root / recipe.source.path,
            copy,
            symlinks=True,
            ignore=shutil.ignore_patterns(".git"),
            copy_function=copy_regular,
            dirs_exist_ok=True,
        )
    for name, content in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    [loaded] = load_catalogue([project])
    pinned = loaded.recipe and loaded.recipe.framework_for(change.cuda)
    if loaded.recipe is None or pinned != change.framework:
        raise RecipeError(
            f"{recipe.module} can't be edited safely",
            why=loaded.fault or f"it would not name {change.framework.pin} for CUDA {change.cuda}",
            fix="change `framework` and `toolkits` by hand",
        )
    check_recipe(loaded.recipe)
    return loaded


def loosened(recipe: Recipe) -> Iterator[dict[str, str]]:
    """Yield requirements without their upper limits: of each alone, then of all."""
    limited = {}
    for text in recipe.requires:
        name = _NAME.match(text)
        parts = text[name.end() :].split(",") if name else []
        kept = [part for part in parts if part.strip().startswith(">")]
        if name and len(kept) < len([part for part in parts if part.strip()]):
            limited[text] = name[0] + ",".join(kept)
    yield from ({old: new} for old, new in limited.items())
    if len(limited) > 1:
        yield limited


def replaced_requirements(recipe: Recipe, requires: Iterable[str]) -> dict[str, str]:
    """Return the present requirement of the same name for each new one.

    Raises:
        UsageError: the recipe has none of that name.
    """
    present = {_name(text): text for text in recipe.requires}
    replaced = {}
    for text in requires:
        if _name(text) not in present:
            raise UsageError(
                f"--require {text}: {recipe.name} requires nothing of that name",
                why=f"its `requires` has {', '.join(present)}",
                fix=f"correct the name, or add it to `requires` in {recipe.module}",
            )
        replaced[present[_name(text)]] = text
    return replaced


def _name(requirement: str) -> str:
    name = _NAME.match(requirement)
    return name[0].lower().replace("_", "-") if name else requirement


class _Edits:
    """Changes of a recipe's text, by places of its syntax tree."""

    def __init__(self, text: str, path: Path) -> None:
        self._text, self._path = text, path
        self._call = recipe_call(text, path)
        self._changes: list[tuple[int, int, str]] = []

    def text(self) -> str:
        text = self._text
        for start, end, new in sorted(self._changes, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def append(self, name: str, new: str) -> None:
        """Add an element to a field's tuple."""
        value = self._value(name)
        if not isinstance(value, ast.Tuple):
            raise self._refusal(name)
        last = span_of(self._text, value.elts[-1])[1]
        self._put(last, last, f", {new}")
        end = span_of(self._text, value)[1]
        if len(value.elts) == 1:  # `("13.0",)`
            comma = self._text.index(",", last)
            self._put(comma, end - 1, "")

    def replace_text(self, name: str, old: str, new: str) -> None:
        """Replace a string among a field's values."""
        for node in ast.walk(self._value(name)):
            if isinstance(node, ast.Constant) and node.value == old:
                self._put(*span_of(self._text, node), json.dumps(new))
                return
        raise self._refusal(name)

    def replace_field(self, name: str, declared: Mapping[str, tuple[str, ...]]) -> None:
        """Replace a field's value by one for each release of CUDA."""
        entries = {release: _literal(value) for release, value in declared.items()}
        self._put(*span_of(self._text, self._value(name)), _by_release(entries))

    def insert_field(self, name: str, declared: Mapping[str, str], before: str) -> None:
        """Add a field, or its entry where it is there."""
        keyword = self._keyword(name)
        if keyword and isinstance(keyword.value, ast.Dict):
            end = span_of(self._text, keyword.value.values[-1])[1]
            [(key, value)] = declared.items()
            self._put(end, end, f", {json.dumps(key)}: {json.dumps(value)}")
        elif keyword:
            self._put(*span_of(self._text, keyword.value), json.dumps(declared))
        elif following := self._keyword(before):
            start = span_of(self._text, following)[0]
            if comments := _COMMENTS_ABOVE.search(self._text[:start]):
                start = comments.start("first")
            self._put(start, start, f"{name}={json.dumps(declared)},\n    ")
        else:
            raise self._refusal(name)

    def copy_entries(
        self, newest: str, release: str, changed: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Give a new release of CUDA what mappings have for the newest one."""
        for keyword in ast.walk(self._call):
            if not isinstance(keyword, ast.keyword) or keyword.arg in _NOT_COPIED:
                continue
            nodes = keyword.value.values if isinstance(keyword.value, ast.Dict) else ()
            for node in (keyword.value, *nodes):
                if value := _entries(node).get(newest):
                    text = self._text[slice(*span_of(self._text, value))]
                    kept = changed.get(keyword.arg or "")
                    self._add_entry(node, release, _literal(kept) if kept else text)

    def set_entry(self, name: str, releases: tuple[str, ...], release: str, new: str) -> None:
        """Set a field's value for one release of CUDA."""
        value = self._value(name)
        if value_of := _entries(value).get(release):
            self._put(*span_of(self._text, value_of), new)
        elif isinstance(value, ast.Dict):
            self._add_entry(value, release, new)
        elif releases == (release,):
            self._put(*span_of(self._text, value), new)
        else:
            text = self._text[slice(*span_of(self._text, value))]
            declared = dict.fromkeys(releases, text) | {release: new}
            self._put(*span_of(self._text, value), _by_release(declared))

    def _add_entry(self, node: ast.expr, release: str, new: str) -> None:
        last = [*_entries(node).values()][-1]
        end = span_of(self._text, last)[1]
        line = self._text.rindex("\n", 0, span_of(self._text, last)[0]) + 1
        indent = re.match(r"\s*", self._text[line:])
        is_alone = isinstance(node, ast.Dict) and node.lineno != last.lineno
        separator = f"\n{indent[0]}" if is_alone and indent else " "
        self._put(end, end, f",{separator}{json.dumps(release)}: {new}")

    def _keyword(self, name: str) -> ast.keyword | None:
        return next((each for each in self._call.keywords if each.arg == name), None)

    def _value(self, name: str) -> ast.expr:
        keyword = self._keyword(name)
        if keyword is None:
            raise self._refusal(name)
        return keyword.value

    def _put(self, start: int, end: int, new: str) -> None:
        self._changes.append((start, end, new))

    def _refusal(self, name: str) -> RecipeError:
        return RecipeError(
            f"{name} in {self._path.name} can't be changed",
            why="it isn't written as a literal",
            fix="write its value there as in the other recipes, or make this change by hand",
        )


def _entries(node: ast.expr) -> dict[str, ast.expr]:
    if not isinstance(node, ast.Dict):
        return {}
    return {
        str(key.value): value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant)
    }


def _by_release(entries: Mapping[str, str]) -> str:
    lines = "".join(f"        {json.dumps(key)}: {text},\n" for key, text in entries.items())
    return f"{{\n{lines}    }}"


def _literal(values: tuple[str, ...]) -> str:
    comma = "," if len(values) == 1 else ""
    return f"({', '.join(map(json.dumps, values))}{comma})"
