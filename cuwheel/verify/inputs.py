"""What a published wheel was built with, by its provenance, and what of that is another here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.build.engine_code import code_of_builds, digest_of_code
from cuwheel.errors import OtherInputsError, UsageError
from cuwheel.system.files import sha256_of_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cuwheel.verify.published import PublishedWheel


_CODE = "cuwheel"  # the material that is cuwheel's own code
_SHOWN = 16  # characters of a hash
_NEEDED = ("recipe", "toolkit", "python")  # parameters
_GIVEN = "given with --source"


def check_is_enough(theirs: PublishedWheel, source: Path | None, target_root: Path | None) -> None:
    """See that a statement says all that building the wheel again takes.

    Args:
        theirs: what was published.
        source: what `--source` gave.
        target_root: root folder of another kind of machine, where one was named.

    Raises:
        UsageError: something is missing; all of it is named.
    """
    missing = [f"the parameter {name}" for name in _NEEDED if not theirs.parameters.get(name)]
    kinds = {name.partition(" ")[0] for name in theirs.hashes}
    missing += [f"the hash of its {kind}" for kind in ("recipe", "lock") if kind not in kinds]
    missing += [] if _CODE in theirs.hashes else ["the hash of cuwheel's code"]
    if missing:
        raise UsageError(
            f"{theirs.named.name} can't be rebuilt from its provenance",
            why=f"its provenance lacks {', '.join(missing)}"
            if theirs.statement
            else "there is no provenance beside it",
            fix="`nox -s verify -- TARGET --against` builds it from this checkout, and compares",
        )
    if theirs.parameters.get("source") == _GIVEN and source is None:
        raise UsageError(
            f"the source of {theirs.named.name} can't be fetched",
            why="according to its provenance it was given with --source",
            fix="get that source from the publisher of the wheel, and give it: --source DIR",
        )
    platform = theirs.foreign_platform
    if platform and target_root is None:
        raise UsageError(
            f"{theirs.named.name} is for {platform.machine}, and no root folder of such a "
            "machine is given",
            why="compiling it here needs that machine's Python headers",
            fix="give one: --target-root DIR (docs/how-to/arm64.md), or build on "
            f"{platform.machine}",
        )


def target_of(theirs: PublishedWheel) -> str:
    """What a command line calls its target: `causal-conv1d-130`."""
    parameters = theirs.parameters
    return f"{parameters['recipe']}-{parameters['toolkit'].replace('.', '')}"


def differing_inputs(
    theirs: PublishedWheel, root: Path, projects: Sequence[Path]
) -> tuple[str, ...]:
    """What isn't in a checkout as it went into the wheel, one line each.

    Args:
        theirs: what was published.
        root: of the checkout.
        projects: folders with recipes, the checkout's own among them.
    """
    return tuple(_differing(theirs, root, projects))


def _differing(theirs: PublishedWheel, root: Path, projects: Sequence[Path]) -> Iterator[str]:
    stated = theirs.hashes
    if (here := digest_of_code(code_of_builds(root), root)) != stated[_CODE]:
        yield f"cuwheel's code: {stated[_CODE][:_SHOWN]} there, {here[:_SHOWN]} here"
    module = theirs.parameters["recipe"].replace("-", "_")
    for name, digest in stated.items():
        path = _path_of(name, module)
        if not path:
            continue
        found = next((one / path for one in projects if (one / path).is_file()), None)
        here = sha256_of_file(found) if found else "nothing"
        if here != digest:
            yield f"{path}: {digest[:_SHOWN]} there, {here[:_SHOWN]} here"


def _path_of(material: str, module: str) -> str:
    """Where a project has the file that a material is; empty for what isn't one of its files."""
    kind, _, name = material.partition(" ")
    folders = {
        "recipe": "",
        "lock": "" if name.startswith("envs/") else "envs/",
        "patch": f"patches/{module}/",
        "smoke": "recipes/smoke/",
    }
    if kind not in folders or ".." in name.split("/"):
        return ""
    return f"{folders[kind]}{name}".lstrip("/")


def refuse_other_inputs(theirs: PublishedWheel, lines: Sequence[str], why_here: str) -> None:
    """End a session whose checkout isn't the one that built the wheel.

    Args:
        theirs: what was published.
        lines: what differs.
        why_here: why the commit that is named wasn't taken.

    Raises:
        OtherInputsError: always, where anything differs.
    """
    if lines:
        raise OtherInputsError(
            f"{theirs.named.name} was built from files that differ from this checkout",
            why="\n".join((*lines, why_here)),
            fix=f"fetch commit {theirs.commit or '(none is stated)'} with git, or build from "
            "this checkout: --here",
        )
