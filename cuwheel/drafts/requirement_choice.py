"""What a draft's locks have to hold: for the build, and for the finished wheel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel.drafts.draft import Call, Field, Note, find_out, guess
from cuwheel.drafts.target_choice import TORCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.drafts.draft import Value
    from cuwheel.drafts.readers.survey import Survey

# What is imported under another name than its distribution's.
_DISTRIBUTIONS = {
    "Cython": "cython",
    "distutils": "setuptools",
    "git": "gitpython",
    "pkg_resources": "setuptools",
    "skbuild": "scikit-build",
    "yaml": "pyyaml",
}


def choose_requires(survey: Survey) -> Field:
    """`[build-system] requires`, what setup.py imports, and what the compiling calls."""
    wanted: dict[str, str] = {}
    notes: list[Note] = []
    for text in survey.system.requires:
        if (name := _name_of(text)) and name != "torch":
            wanted[name] = _plain(text)
    asked = [*_imported(survey)]
    more = {name: where for name, where in asked if name not in {*wanted, "torch"}}
    if more:
        listed = ", ".join(f"{name} ({where})" for name, where in sorted(more.items()))
        notes.append(guess(f"imported by the build, but not in [build-system]: {listed}"))
    wanted |= {name: name for name in more}
    if started := [one for one in survey.relevant("program") if one.name not in wanted]:
        first = {one.name: one.where for one in reversed(started)}
        listed = ", ".join(f"{name} ({where})" for name, where in first.items())
        notes.append(guess(f"the build runs {listed}"))
        wanted |= {one.name: one.name for one in started}
    wanted |= {name: text for name, text in _tools(survey) if name not in wanted}
    return Field(name="requires", value=tuple(sorted(wanted.values())), notes=tuple(notes))


def _imported(survey: Survey) -> Iterator[tuple[str, str]]:
    own = {name.lower() for name in survey.packages}
    for one in survey.relevant("import"):
        if one.name.lower() not in own:
            yield canonicalize_name(_DISTRIBUTIONS.get(one.name, one.name)), one.where


def _tools(survey: Survey) -> Iterator[tuple[str, str]]:
    """What backends call without stating it: scikit-build-core asks for these when it runs."""
    if survey.uses_cmake:
        stated = min(survey.of("minimum"), key=lambda one: one.where.count("/"), default=None)
        oldest = stated.name.partition("...")[0] if stated else ""
        yield "cmake", f"cmake>={oldest}" if oldest else "cmake"
        yield "ninja", "ninja"
    elif survey.has_setup:
        yield "setuptools", "setuptools"
        yield "wheel", "wheel"
    if survey.uses_torch:
        yield "ninja", "ninja"  # PyTorch's BuildExtension compiles with it, several at once


def choose_smoke(survey: Survey) -> Field:
    """Import all that it installs, with all that it requires."""
    modules = [one.name for one in survey.of("extension") if "CMake" not in one.where]
    own = [name for name in modules if name.replace(".", "").replace("_", "").isalnum()]
    inside = {name.rpartition(".")[2] for name in own if "." in name}
    # setuptools lists extension modules of an `ext_package` in top_level.txt as if they weren't.
    packages = [name for name in survey.packages if name not in inside or name in own]
    imports = tuple(dict.fromkeys((*packages, *own)))
    notes: list[Note] = []
    if not imports:
        notes.append(find_out("which modules to import: no package or extension module was found"))
    elif not any(survey.tree.glob("*.egg-info/top_level.txt")):
        notes.append(guess("the packages found in the source; keep those that the wheel contains"))
    given: dict[str, Value] = {"imports": imports}
    required = [_plain(text) for text in survey.metadata.requires]
    locked = {_name_of(text) for text in _values(choose_requires(survey).value)}
    others = [text for text in required if _name_of(text) != "torch"]
    needs_torch = len(others) < len(required) and not survey.uses_torch
    if needs_torch or any(_name_of(text) not in locked for text in others):
        given["requires"] = (*others, *([f"torch=={TORCH}"] if needs_torch else []))
    notes += _unrequired(survey, modules)
    if survey.metadata.dynamic and not required:
        notes.append(find_out("what the wheel requires: the build computes it"))
    return Field(name="smoke", value=Call(name="Smoke", given=given), notes=tuple(notes))


def _unrequired(survey: Survey, modules: list[str]) -> Iterator[Note]:
    """What the package imports and its metadata don't require."""
    known = {_name_of(text) for text in survey.metadata.requires}
    known |= {"torch"} if survey.uses_torch else set()
    own = {name.partition(".")[0] for name in modules}
    for one in survey.of("runtime import"):
        name = canonicalize_name(_DISTRIBUTIONS.get(one.name, one.name))
        if name not in known and one.name not in own:
            yield find_out(
                f"whether {one.where} always imports {one.name}, which the metadata doesn't "
                "require: then a patch has to add it, because users need it too"
            )


def _values(value: Value | None) -> Iterable[str]:
    return value if isinstance(value, tuple) else ()


def _name_of(text: str) -> str:
    try:
        return canonicalize_name(Requirement(text).name)
    except InvalidRequirement:
        return ""


def _plain(text: str) -> str:
    """A requirement as recipes write it."""
    return str(Requirement(text)).replace('"', "'")
