"""The reference pages, written from what the code says about itself: `nox -s docs`.

What a page says stands in one place, beside the code that does it; a test compares the pages on
disk with what this module makes. The text has to be the same under every Python, so nothing here
takes argparse's own help, whose form changes between releases.
"""

from __future__ import annotations

import inspect
import itertools
import json
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuwheel import components, errors, options, recipe, toolkits
from cuwheel.condalock import read_conda_lock
from cuwheel.errors import CuwheelError
from cuwheel.files import write_atomically
from cuwheel.paths import ROOT
from cuwheel.pipeline import STAGES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_MARK = "<!-- Written by `nox -s docs` from {source}; don't edit. -->"
_SECTIONS = ("Args:", "Attributes:", "Raises:", "Returns:", "Yields:")
_INDENT = 4  # columns, of an entry in a docstring's section

# Exit codes are given out by what a reader was doing: each of these opens a group of errors.
_GROUPS = {
    2: "The command line and the recipe",
    10: "Locks and packages",
    20: "The CUDA toolchain",
    30: "The source and its patches",
    50: "Before the build",
    60: "The package's own build",
    70: "The finished wheel",
    100: "Publishing",
    110: "Stages run alone",
    120: "The machine",
}
_RECIPE_INTRO = """\
A field without a default has to be given. [CONTRIBUTING.md](../../CONTRIBUTING.md) walks through a
recipe from an empty file."""
_OPTIONS_INTRO = """\
Options stand behind `--`, after the session's name. Paths are relative to the folder in which nox
was started. `nox -l` lists all sessions; those that aren't here take no options, and `tests` and
`tests-e2e` hand theirs to pytest."""
_COMPONENTS_INTRO = """\
What `link` of a recipe may name. Their libraries are never copied into a wheel: it declares the
wheel that supplies them, and finds them there by a relative rpath."""
_CONDA_INTRO = """\
What the provider `conda` installs, from `envs/cuda<tag>/conda-lock.yml`;
[how-to/toolchains.md](../how-to/toolchains.md) tells more."""
_CONDA_COLUMNS = ("toolkit", "nvcc", "GCC", "sysroot", "packages", "download", "files")
_SOURCES = typing.get_args(recipe.Source)
_BUILDS = typing.get_args(recipe.Build)
_DECLARATIONS = (
    recipe.Recipe,
    *_SOURCES,
    recipe.Resource,
    recipe.Patch,
    recipe.Framework,
    *_BUILDS,
    recipe.Link,
    recipe.Smoke,
)


@dataclass(frozen=True, kw_only=True)
class _Docstring:
    """A docstring taken apart.

    Attributes:
        text: all of it but its sections.
        entries: of the sections, name → text in one line.
    """

    text: str
    entries: Mapping[str, str]

    @property
    def summary(self) -> str:
        """Its first paragraph, in one line."""
        return " ".join(self.text.partition("\n\n")[0].split())


def write_documents(root: Path) -> tuple[Path, ...]:
    """Write every generated page below `root`; gives back their paths.

    Raises:
        OSError: one can't be written.
    """
    made = documents()
    for name, text in made.items():
        write_atomically(root / name, text)
    return tuple(root / name for name in made)


def documents() -> dict[str, str]:
    """Every generated page: path relative to the repository, and text."""
    return {
        "TROUBLESHOOTING.md": _troubleshooting(),
        "docs/reference/recipe.md": _recipe_reference(),
        "docs/reference/options.md": _options_reference(),
        "docs/reference/toolkits.md": _toolkits_reference(),
    }


def error_classes() -> tuple[type[CuwheelError], ...]:
    """Every error that a reader can meet, by exit code."""
    classes = [
        kind
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, CuwheelError) and kind.anchor
    ]
    return tuple(sorted(classes, key=lambda kind: kind.exit_code))


def _troubleshooting() -> str:
    found = error_classes()
    parts = [
        "# Troubleshooting",
        _MARK.format(source="the docstrings in cuwheel/errors.py"),
        _troubleshooting_intro(),
        _table(
            ("exit code", "error", "what it says"),
            [
                (str(kind.exit_code), f"[{_title(kind)}](#{kind.anchor})", _read(kind).summary)
                for kind in found
            ],
        ),
    ]
    for group, kinds in itertools.groupby(found, _group):
        parts += [f"## {group}", *(_entry(kind) for kind in kinds)]
    return _page(parts)


def _group(kind: type[CuwheelError]) -> str:
    return _GROUPS[max(first for first in _GROUPS if first <= kind.exit_code)]


def _troubleshooting_intro() -> str:
    return f"""\
An error is printed once, at the end:

```
{_sample_error()}
```

The last line leads to one of the entries below. nox itself ends with status 1 whatever happened;
the exit codes are those of the engine (`python -m cuwheel`), and nox prints them. 130 means that
Ctrl-C was pressed, 143 that something else asked cuwheel to end: nothing half-made is left, and the
next run goes on from there."""


def _sample_error() -> str:
    try:
        toolkits.check_archs("causal-conv1d", toolkits.TOOLKITS[-1], ("70",))
    except CuwheelError as error:
        return str(error)
    raise ValueError("the table of toolkits now knows sm_70: take another sample")


def _title(kind: type[CuwheelError]) -> str:
    """`Unsupported arch` for `UnsupportedArchError`."""
    name = kind.__name__.removesuffix("Error")
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return words.strip().capitalize()


def _entry(kind: type[CuwheelError]) -> str:
    heading = f'<a id="{kind.anchor}"></a>\n\n### {_title(kind)}'
    return f"{heading}\n\nExit code {kind.exit_code}. {_read(kind).text}"


def _recipe_reference() -> str:
    parts = [
        "# What a recipe can say",
        _MARK.format(source="the docstrings in cuwheel/recipe.py"),
        _read(recipe).text,
        f"`Source` is one of {_names(_SOURCES)}; `Build` is one of {_names(_BUILDS)}.",
        _RECIPE_INTRO,
    ]
    for declaration in _DECLARATIONS:
        parts += [f"## {declaration.__name__}", _read(declaration).text, _fields(declaration)]
    return _page(parts)


def _fields(declaration: type) -> str:
    told = _read(declaration).entries
    rows = []
    for name, parameter in inspect.signature(declaration).parameters.items():
        star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
        kind, default = _code(str(parameter.annotation)), _default(parameter.default)
        rows.append((_code(f"{star}{name}"), kind, default, told[name]))
    return _table(("field", "type", "default", "meaning"), rows)


def _default(value: Any) -> str:
    """A default as a recipe's author would write it; sizes in the unit that gives a whole number.

    A field that takes any mapping starts with an empty one, from a factory.
    """
    if value is inspect.Parameter.empty:
        return ""
    if repr(value) == "<factory>":
        return _code("{}")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value // recipe.MIB} MiB" if value % recipe.GIB else f"{value // recipe.GIB} GiB"
    return _code(json.dumps(value) if isinstance(value, str) else repr(value))


def _options_reference() -> str:
    parsers = (
        options.build_parser("build-<recipe>-<toolkit>", tuple(STAGES)),
        options.lock_parser(),
        options.lock_verify_parser(),
        options.toolchain_parser("toolchain-<toolkit>"),
        options.mirror_parser(),
        options.index_parser(),
    )
    parts = [
        "# Options of the sessions",
        _MARK.format(source="the parsers in cuwheel/options.py"),
        _OPTIONS_INTRO,
    ]
    for parser in parsers:
        parts += [f"## `{parser.prog}`", str(parser.description), _rows_of(parser)]
    return _page(parts)


def _rows_of(parser: options.Parser) -> str:
    rows = [(_code(_spelling(action)), str(action.help)) for action in parser.described]
    return _table(("option", "meaning"), rows)


def _spelling(action: argparse.Action) -> str:
    """`--jobs N|auto`, `--toolchain pypi|conda|system`, `--offline`."""
    value = action.metavar or "|".join(action.choices or ())
    return " ".join([*action.option_strings, *([str(value)] if value else [])])


def _toolkits_reference() -> str:
    return _page(
        [
            "# CUDA releases and components",
            _MARK.format(source="cuwheel/toolkits.py, components.py and the conda locks"),
            "## Releases",
            "What `toolkits` and `archs` of a recipe may name.",
            _table_of(toolkits.Toolkit, toolkits.TOOLKITS),
            "## Components",
            _COMPONENTS_INTRO,
            _table_of(components.Component, components.COMPONENTS),
            "## Conda toolchains",
            _CONDA_INTRO,
            _table(_CONDA_COLUMNS, [_conda_row(lock) for lock in _conda_locks()]),
        ]
    )


def _conda_locks() -> list[Path]:
    return sorted((ROOT / "envs").glob("cuda*/conda-lock.yml"))


def _conda_row(path: Path) -> list[str]:
    lock = read_conda_lock(path)
    versions = {package.name: package.version for package in lock.packages}
    tag = path.parent.name.removeprefix("cuda")
    return [
        toolkits.toolkit_by_release(tag).release,
        versions["cuda-nvcc"],
        versions["gcc_linux-64"],
        f"glibc {versions['sysroot_linux-64']}",
        str(len(lock.packages)),
        f"{lock.download_size >> 20} MiB",
        lock.files,
    ]


def _table_of(kind: type, rows: Sequence[Any]) -> str:
    """A table of records, above it what each column means."""
    told = _read(kind).entries
    meanings = "\n".join(f"- {_code(name)}: {text}" for name, text in told.items())
    cells = [[_cell(getattr(row, name)) for name in told] for row in rows]
    return f"{meanings}\n\n{_table(tuple(told), cells)}"


def _cell(value: str | int | tuple[str | tuple[str, str], ...] | None) -> str:
    """What a field holds; a pair is two words, nothing is an empty cell."""
    if isinstance(value, tuple):
        return " ".join(_code(one if isinstance(one, str) else " ".join(one)) for one in value)
    return _code(str(value)) if value not in {"", None} else ""


def _read(owner: object) -> _Docstring:
    """Take a docstring in Google's form apart."""
    text: list[str] = []
    entries: dict[str, str] = {}
    name, inside = "", False
    for line in inspect.cleandoc(owner.__doc__ or "").splitlines():
        depth = len(line) - len(line.lstrip())
        inside = line in _SECTIONS or (inside and (depth > 0 or not line))
        if not inside:
            text.append(line)
        elif depth == _INDENT:
            name, _, entries[name] = (part.strip() for part in line.partition(":"))
        elif depth > _INDENT:
            entries[name] += f" {line.strip()}"
    return _Docstring(text="\n".join(text).strip(), entries=entries)


def _names(kinds: Iterable[type]) -> str:
    return ", ".join(f"[`{kind.__name__}`](#{kind.__name__.lower()})" for kind in kinds)


def _code(text: str) -> str:
    return f"`{text}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [
        head,
        ["---"] * len(head),
        *([cell.replace("|", r"\|") for cell in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"
