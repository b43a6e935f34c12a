"""The nox sessions: one for each build, and one for each other verb of the engine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cuwheel.cuda.toolkits import TOOLKITS
from cuwheel.errors import nearest, suggest
from cuwheel.model.catalogue import missing_recipe, target_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.model.catalogue import CatalogueEntry

Tag = Literal["build", "target", "report", "maintain"]


@dataclass(frozen=True, kw_only=True)
class Session:
    """A nox session that runs one command of the engine.

    Attributes:
        name: what stands behind `nox -s`.
        summary: the line that `nox -l` shows.
        tag: the group that `nox -t` selects.
        command: what the engine is asked to do; what stands behind `--` follows.
        takes: what has to stand behind `--`, where that is a name of the catalogue.
        environment: the locked one that it runs in: `envs/engine.lock`, or one with more.
    """

    name: str
    summary: str
    tag: Tag
    command: tuple[str, ...]
    takes: Literal["", "target", "toolkit"] = ""
    environment: Literal["engine", "perf"] = "engine"


def _verb(
    name: str,
    summary: str,
    tag: Tag,
    takes: Literal["", "target", "toolkit"] = "",
    environment: Literal["engine", "perf"] = "engine",
) -> Session:
    return Session(
        name=name,
        summary=summary,
        tag=tag,
        command=(name,),
        takes=takes,
        environment=environment,
    )


# A new verb is a line here and one in cuwheel/cli/dispatch.py. A target is `causal-conv1d-130`.
VERBS = (
    _verb(
        "build", "Build for a framework's release: -- RECIPE --framework torch==2.15.0.", "build"
    ),
    _verb("matrix", "Show all possible wheels; build the missing ones: -- build.", "build"),
    _verb(
        "nightly",
        "Diagnose, build what is due, smoke, perf; report: [-- TARGET].",
        "build",
        environment="perf",
    ),
    _verb("smoke", "Install and import a built wheel: -- TARGET.", "target", "target"),
    _verb(
        "install", "Install the newest wheel that fits, and test it: -- TARGET.", "target", "target"
    ),
    _verb("verify", "Build in several ways, compare the bytes: -- TARGET|all.", "target", "target"),
    _verb("rebuild", "Rebuild a published wheel, compare, sign: -- WHEEL.", "target"),
    _verb(
        "perf",
        "Check and measure a wheel on this GPU; pass or fail: [-- TARGET].",
        "target",
        environment="perf",
    ),
    _verb("profile", "Show a build's use of time and memory: -- TARGET.", "target", "target"),
    _verb("audit", "Check wheels, of any project, and report problems: -- WHEEL|DIR.", "report"),
    _verb(
        "attestations",
        "List who rebuilt a wheel to the same bytes: -- WHEEL --policy FILE.",
        "report",
    ),
    _verb("diagnose", "Check whether GPU packages work here, and if not, say why.", "report"),
    _verb("pick", "Show which wheel fits this machine, or why none does: -- NAME.", "report"),
    _verb("explain", "Explain what went wrong in a log, of any tool: -- LOG.", "report"),
    _verb("new", "Draft a recipe from a package's source on the index: -- NAME.", "maintain"),
    _verb("outdated", "List what is newer than the recipes' pins: [-- NAME].", "maintain"),
    _verb("bump", "Update a recipe to upstream's newest release: -- NAME.", "maintain"),
    _verb("toolchain", "Make a CUDA toolchain and print its path: -- 130.", "maintain", "toolkit"),
    _verb(
        "mirror", "Write all that an offline build needs: -- TARGET --to DIR.", "maintain", "target"
    ),
    _verb(
        "lock", "Resolve and pin: -- engine, toolchain:122, python:312, build:RECIPE.", "maintain"
    ),
    _verb("lock-check", "Fail when a lock doesn't match its input.", "maintain"),
    _verb("lock-verify", "Download the files of conda locks, verify hashes: -- 122.", "maintain"),
    _verb("index", "Write dist/simple/, the package index of all wheels in dist/.", "maintain"),
    _verb(
        "release",
        "Show what a release would contain; publish wheels and notes: --publish.",
        "maintain",
    ),
    _verb("cache", "Show the cache's contents, remove what is unused: -- --prune.", "maintain"),
    _verb(
        "torch-symbols",
        "Read the exported symbols of new PyTorch releases, for the audit.",
        "maintain",
    ),
    _verb("docs", "Write TROUBLESHOOTING.md and docs/reference/ from the code.", "maintain"),
)


# What works on a checkout of cuwheel: an installed one has no pages to write, and a mirror holds
# a checkout.
OF_CHECKOUT = frozenset({"docs", "mirror", "torch-symbols"})


def sessions_of(entries: Iterable[CatalogueEntry]) -> tuple[Session, ...]:
    """Every session of the engine, in the order in which `nox -l` shows them."""
    return (*(build for entry in entries for build in _builds(entry)), *VERBS)


def _builds(entry: CatalogueEntry) -> Iterator[Session]:
    """One for each toolkit; of a recipe that can't be loaded, one that says why."""
    if entry.recipe is None:
        yield Session(
            name=f"build-{entry.name}",
            summary=f"BROKEN recipe: {entry.fault}",
            tag="build",
            command=("build", entry.name),
        )
        return
    for name, release in zip(entry.target_names, entry.recipe.toolkits, strict=True):
        label = f"{entry.recipe.name} {entry.recipe.version} for CUDA {release}"
        is_new = release in entry.recipe.never_built
        yield Session(
            name=f"build-{name}",
            summary=f"Build the wheel of {label}{': NEVER BUILT yet' if is_new else '.'}",
            tag="build",
            command=("build", name),
        )


def requested_sessions(arguments: Iterable[str]) -> tuple[str, ...]:
    """The session names on nox's command line (`-s a b`, `--session=a`), up to `--`."""
    found, listening = [], False
    for argument in arguments:
        if argument == "--":
            break
        if argument.startswith("-"):
            flag, _, value = argument.partition("=")
            listening = flag in {"-s", "-e", "--session", "--sessions"}
            found += [value] if listening and value else []
        elif listening:
            found.append(argument)
    return tuple(found)


def suggest_sessions(
    asked: Iterable[str], known: Iterable[str], entries: Iterable[CatalogueEntry] = ()
) -> tuple[str, ...]:
    """One line for each asked session that doesn't exist: the nearest, or why it is missing."""
    asked, names, entries = tuple(asked), set(known), tuple(entries)
    unknown = [name for name in asked if name not in names]
    takers = {verb.name for verb in VERBS if re.search(r"(?:^|[\s[])-- ", verb.summary)}
    is_like_none = not any(nearest(name, names) for name in unknown)
    if asked and asked[0] in takers & names and unknown == [*asked[1:]] != [] and is_like_none:
        words = " ".join(unknown)
        return (f'"{words}" is no session: did you mean "nox -s {asked[0]} -- {words}"?',)
    return tuple(
        f'there is no session "{name}": {_broken(name, entries) or _nearest(name, names, entries)}'
        for name in unknown
    )


def _broken(name: str, entries: Iterable[CatalogueEntry]) -> str:
    """Why the session of a broken recipe is missing; empty for other names."""
    for entry in entries:
        if entry.fault and f"-{entry.name.replace('_', '-')}-" in f"{name}-":
            return f"{entry.root}/recipes/{entry.name}.py can't be loaded: {entry.fault}"
    return ""


def _nearest(name: str, known: Iterable[str], entries: Iterable[CatalogueEntry]) -> str:
    """The nearest session; `smoke-x-130` means `smoke -- x-130`, and `build` any of the builds."""
    known, entries = tuple(known), tuple(entries)
    verbs = ("build", *(verb.name for verb in VERBS if "TARGET" in verb.summary))
    package = re.sub(rf"^(?:{'|'.join(verbs)})-", "", name)
    if package != name and (missing := missing_recipe(package, entries)):
        return f"there is no recipe of {missing}; `nox -s new -- {missing}` drafts one"
    if begun := sorted(one for one in known if one.startswith(f"{name}-")):
        return f"known: {', '.join(begun)}"
    named = {"": (), "target": target_names(entries), "toolkit": tuple(one.tag for one in TOOLKITS)}
    forms = {
        f"{verb.name}-{what}": f"{verb.name} -- {what}"
        for verb in VERBS
        for what in named[verb.takes]
    }
    near = nearest(name, (*known, *forms))
    return f'did you mean "nox -s {forms[near]}"?' if near in forms else suggest(name, known)
