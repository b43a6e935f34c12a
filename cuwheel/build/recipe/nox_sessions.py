"""The nox sessions: one for each build, and one for each other verb of the engine."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from cuwheel.base.errors import nearest, suggest
from cuwheel.build.recipe.catalogue import CatalogueEntry, missing_recipe, target_names
from cuwheel.check.cuda.toolkits import TOOLKITS

Tag = Literal["build", "target", "report", "maintain"]


@dataclass(frozen=True)
class Session:
    """A nox session that runs one command of the engine.

    Attributes:
        summary: the line that `nox -l` shows.
        tag: the group that `nox -t` selects.
        takes: the argument after `--`, where it has to be a name of the catalogue.
        environment: the locked one that it runs in: `envs/engine.lock`, or one with more.
    """

    name: str
    summary: str
    tag: Tag
    takes: Literal["", "target", "toolkit"] = ""
    environment: Literal["dev", "engine", "mcp", "perf"] = "engine"

    @property
    def command(self) -> tuple[str, ...]:
        """The arguments of the engine; those after `--` follow."""
        first, _, target = self.name.partition("-")
        return (first, target) if first == "build" and target else (self.name,)


# A new verb is a line here and one in cuwheel/cli/dispatch.py. A target is `causal-conv1d-130`.
VERBS = (
    Session(
        "build", "Build for a framework's release: -- RECIPE --framework torch==2.15.0.", "build"
    ),
    Session("matrix", "Show all possible wheels; build the missing ones: -- build.", "build"),
    Session(
        "nightly",
        "Diagnose, build what is due, smoke, perf; report: [-- TARGET].",
        "build",
        environment="perf",
    ),
    Session("smoke", "Install and import a built wheel: -- TARGET.", "target", "target"),
    Session(
        "install", "Install the newest wheel that fits, and test it: -- TARGET.", "target", "target"
    ),
    Session("get", "Make an environment of packages that fit together: -- NAME NAME.", "target"),
    Session(
        "verify", "Build in several ways, compare the bytes: -- TARGET|all.", "target", "target"
    ),
    Session("rebuild", "Rebuild a published wheel, compare, sign: -- WHEEL.", "target"),
    Session("slim", "Write a wheel without other GPUs' code: -- WHEEL --arch 90.", "target"),
    Session(
        "perf",
        "Check and measure a wheel on this GPU; pass or fail: [-- TARGET].",
        "target",
        environment="perf",
    ),
    Session("profile", "Show a build's use of time and memory: -- TARGET.", "target", "target"),
    Session("audit", "Check wheels, of any project, and report problems: -- WHEEL|DIR.", "report"),
    Session(
        "attestations",
        "List who rebuilt a wheel to the same bytes: -- WHEEL --policy FILE.",
        "report",
    ),
    Session(
        "diagnose", "Check whether GPU packages work here, or say why not: [-- NAME].", "report"
    ),
    Session("pick", "Show which wheels fit this machine, or why none does: -- NAME.", "report"),
    Session("explain", "Explain what went wrong in a log, of any tool: -- LOG.", "report"),
    Session(
        "mcp",
        "Serve audit, diagnose, explain, pick to an assistant (MCP).",
        "report",
        environment="mcp",
    ),
    Session("new", "Draft a recipe from a package's source on the index: -- NAME.", "maintain"),
    Session("outdated", "List what is newer than the recipes' pins: [-- NAME].", "maintain"),
    Session(
        "day-zero", "Try recipes with a framework's new release: [-- torch==2.15.0].", "maintain"
    ),
    Session("bump", "Update a recipe to upstream's newest release: -- NAME.", "maintain"),
    Session(
        "toolchain", "Make a CUDA toolchain and print its path: -- 130.", "maintain", "toolkit"
    ),
    Session(
        "mirror", "Write all that an offline build needs: -- TARGET --to DIR.", "maintain", "target"
    ),
    Session(
        "lock", "Resolve and pin: -- engine, toolchain:122, python:312, build:RECIPE.", "maintain"
    ),
    Session("lock-check", "Fail when a lock doesn't match its input.", "maintain"),
    Session(
        "lock-verify",
        "Download the files of conda and redist locks, verify hashes: -- 122.",
        "maintain",
    ),
    Session("index", "Write dist/simple/, the package index of all wheels in dist/.", "maintain"),
    Session(
        "release",
        "Show what a release would contain; publish wheels and notes: --publish.",
        "maintain",
    ),
    Session(
        "cache",
        "Show the cache; remove unused: -- --prune; why files compiled: -- why.",
        "maintain",
    ),
    Session(
        "torch-symbols",
        "Read the exported symbols of new PyTorch releases, for the audit.",
        "maintain",
    ),
    Session("docs", "Write TROUBLESHOOTING.md and docs/reference/ from the code.", "maintain"),
    Session("site", "Write docs/ as a site, check its links: [-- DIR], public/docs.", "maintain"),
    Session(
        "package",
        "Build and check cuwheel's own sdist and wheel: [-- DIR], public/package.",
        "maintain",
        environment="dev",
    ),
    Session(
        "completions",
        "Write the shells' completions from the commands' options.",
        "maintain",
        environment="dev",
    ),
)


# Commands that need a checkout of cuwheel: an installed one has no pages to write, and a mirror
# holds a checkout.
OF_CHECKOUT = frozenset({"completions", "docs", "mirror", "package", "site", "torch-symbols"})


def sessions_of(entries: Iterable[CatalogueEntry]) -> tuple[Session, ...]:
    """Return every session of the engine, in the order of `nox -l`."""
    return (*(build for entry in entries for build in _builds(entry)), *VERBS)


def _builds(entry: CatalogueEntry) -> Iterator[Session]:
    """Yield a session for each toolkit; of a recipe that can't be loaded, one with the reason."""
    if entry.recipe is None:
        yield Session(f"build-{entry.name}", f"BROKEN recipe: {entry.fault}", "build")
        return
    for name, release in zip(entry.target_names, entry.recipe.toolkits, strict=True):
        label = f"{entry.recipe.name} {entry.recipe.version} for CUDA {release}"
        is_new = release in entry.recipe.never_built
        summary = f"Build the wheel of {label}{': NEVER BUILT yet' if is_new else '.'}"
        yield Session(f"build-{name}", summary, "build")


def requested_sessions(arguments: Iterable[str]) -> tuple[str, ...]:
    """Return the session names on nox's command line (`-s a b`, `--session=a`), up to `--`."""
    names, is_name = [], False
    for argument in arguments:
        if argument == "--":
            break
        if argument.startswith("-"):
            flag, _, value = argument.partition("=")
            is_name = flag in {"-s", "-e", "--session", "--sessions"}
            names += [value] if is_name and value else []
        elif is_name:
            names.append(argument)
    return tuple(names)


def misplaced_python(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return a line about `nox -s diagnose --python X`: nox takes that option as its own."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    at = [number for number, word in enumerate(own) if word in {"--python", "--pythons", "-p"}]
    values = own[at[0] + 1 : at[0] + 2] if at else ()
    if not (values and requested_sessions(own)):
        return ()
    verb = requested_sessions(own)[0]
    meant = f"nox -s {verb} -- --python {values[0]}"
    return (f'nox keeps {own[at[0]]} for itself: did you mean "{meant}"?',)


def suggest_sessions(
    requested: Iterable[str],
    known: Iterable[str],
    entries: Iterable[CatalogueEntry] = (),
    *,
    files: Collection[str] = (),
) -> tuple[str, ...]:
    """Return one line for each session that doesn't exist: the nearest, or why it is missing.

    What is in `files`, or has a dot or a slash, is the argument of the session before it.
    """
    requested, names, entries = tuple(requested), set(known), tuple(entries)
    unknown = [name for name in requested if name not in names]
    takers = {verb.name for verb in VERBS if re.search(r"(?:^|[\s[])-- ", verb.summary)}
    spelled = [name for name in unknown if name not in files and not {".", "/"} & {*name}]
    verbs = {"build", *(verb.name for verb in VERBS)} - {*requested[:1]}
    has_near = any(
        nearest(name, verbs) or nearest(name.partition("-")[0], verbs) for name in spelled
    )
    if requested and unknown == [*requested[1:]] != [] and not has_near:
        verb, arguments = requested[0], " ".join(unknown)
        if verb in takers & names:
            return (f'"{arguments}" is no session: did you mean "nox -s {verb} -- {arguments}"?',)
    return tuple(
        f'there is no session "{name}": {_correction(name, names, entries)}' for name in unknown
    )


def _correction(name: str, known: Iterable[str], entries: Iterable[CatalogueEntry]) -> str:
    """Return why a session is missing, or the nearest one.

    `smoke-x-130` means `smoke -- x-130`, and `build` any of the builds.
    """
    known, entries = tuple(known), tuple(entries)
    for entry in entries:
        if entry.fault and f"-{entry.name.replace('_', '-')}-" in f"{name}-":
            return f"{entry.root}/recipes/{entry.name}.py can't be loaded: {entry.fault}"
    verbs = ("build", *(verb.name for verb in VERBS if "TARGET" in verb.summary))
    package = re.sub(rf"^(?:{'|'.join(verbs)})-", "", name)
    if package != name and (missing := missing_recipe(package, entries)):
        return f"there is no recipe of {missing}; `nox -s new -- {missing}` drafts one"
    if longer := sorted(session for session in known if session.startswith(f"{name}-")):
        return f"known: {', '.join(longer)}"
    arguments = {
        "": (),
        "target": target_names(entries),
        "toolkit": tuple(toolkit.tag for toolkit in TOOLKITS),
    }
    forms = {
        f"{verb.name}-{argument}": f"{verb.name} -- {argument}"
        for verb in VERBS
        for argument in arguments[verb.takes]
    }
    near = nearest(name, (*known, *forms))
    return f'did you mean "nox -s {forms[near]}"?' if near in forms else suggest(name, known)
