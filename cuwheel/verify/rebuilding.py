"""The session `rebuild`: somebody's published wheel built again from what its provenance names."""

from __future__ import annotations

import contextlib
import datetime
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.attest.check import statement_name
from cuwheel.attest.envelope import sign_statement
from cuwheel.attest.sigstore import VERIFIER, Sigstore
from cuwheel.attest.verification import Verification, statement_of
from cuwheel.containers.image import parse_image
from cuwheel.paths import ROOT, project_roots
from cuwheel.system.files import remove_tree, sha256_of_file, write_atomically
from cuwheel.verify.inputs import (
    check_is_enough,
    differing_inputs,
    refuse_other_inputs,
    target_of,
)
from cuwheel.verify.rebuilds import Variation
from cuwheel.verify.session import VerifiedAgainst, verify_against
from cuwheel.verify.worktrees import checked_out, is_at_hand, projects_in
from cuwheel.wheel import publication

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import rich.console

    from cuwheel.attest.keys import PublicKey, SigningKey
    from cuwheel.attest.sigstore import Identity
    from cuwheel.system.console import Console
    from cuwheel.verify.published import PublishedWheel


_DIFFERENCES = 200  # lines that a statement has at most; the comparison has all


@dataclass(frozen=True, kw_only=True)
class RebuildRequest:
    """What is to be built again, and how.

    Attributes:
        theirs: what was published.
        folder: for everything of it.
        options: of the `build` command, beside those that the provenance gives.
        source: what `--source` gave; None: it is fetched.
        target_root: root folder of another kind of machine; None: none was named.
        is_here: whether this checkout is taken, whatever differs in it.
    """

    theirs: PublishedWheel
    folder: Path
    options: tuple[str, ...] = ()
    source: Path | None = None
    target_root: Path | None = None
    is_here: bool = False


def rebuild_published(
    asked: RebuildRequest, console: Console, out: rich.console.Console
) -> VerifiedAgainst:
    """Build a published wheel again, with the very files that its provenance names, and compare.

    Args:
        asked: what, and how.
        console: for the progress.
        out: for the report.

    Raises:
        UsageError: what is stated of the wheel isn't enough.
        OtherInputsError: neither this checkout nor a commit of this clone has those files.
        RebuildFailedError: the build failed.
    """
    theirs = asked.theirs
    check_is_enough(theirs, asked.source, asked.target_root)
    command = [target_of(theirs), *theirs.options, *asked.options]
    command += ["--source", str(asked.source)] if asked.source else []
    if theirs.foreign_platform:  # an older checkout's cuwheel doesn't know the option
        command += ["--target-root", str(asked.target_root)]
    if image := theirs.parameters.get("container"):
        command += ["--container", parse_image(image).reference]
    again = asked.folder / "again"
    remove_tree(again)  # an earlier one would count as this wheel's build
    tag = ("--build-tag", str(theirs.build_tag)) if theirs.build_tag else ()
    with _checkout(asked, console) as (root, projects):
        how = Variation(
            name="again",
            says="from the inputs that the provenance names, compiling everything",
            work=again / "work",
            dist=again / "dist",
            # The cache may hold the very objects of what was published.
            options=("--no-cache", *tag),
            variables={"CUWHEEL_PROJECT": os.pathsep.join(map(str, projects))},
            root=root,
        )
        return verify_against(command, theirs, how, console, out)


@contextlib.contextmanager
def _checkout(asked: RebuildRequest, console: Console) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """The checkout that has what the wheel was built with, and its folders of recipes.

    Raises:
        OtherInputsError: there is none.
    """
    theirs, projects = asked.theirs, project_roots()
    differing = differing_inputs(theirs, ROOT, projects)
    if asked.is_here or not differing:
        for line in differing:
            console.warn(f"another input: {line}")
        yield ROOT, projects
        return
    if not is_at_hand(theirs.commit):
        refuse_other_inputs(theirs, differing, "no branch or tag of this clone contains its commit")
    for line in differing:
        console.note(f"another input: {line}")
    console.note(f"so it is built from commit {theirs.commit}")
    with checked_out(theirs.commit, asked.folder / "checkout") as root:
        there = projects_in(root, projects)
        refuse_other_inputs(
            theirs,
            differing_inputs(theirs, root, there),
            f"commit {theirs.commit} has the same difference: the files weren't committed "
            "when the wheel was built",
        )
        yield root, there


def sign_verification(found: VerifiedAgainst, by: SigningKey | Sigstore, folder: Path) -> Path:
    """Write what a rebuild gave as a signed statement; gives back the file.

    Args:
        found: what it gave.
        by: the rebuilder's key, or where this job's identity signs.
        folder: where the statement goes.

    Raises:
        SigstoreError: it didn't sign, as without a network; nothing is written.
    """
    theirs, ours = found.theirs, publication.statement_of(found.build.wheel)
    name = theirs.wheel_name
    more = len(found.differences) - _DIFFERENCES
    beyond = (f"and {more} more",) if more > 0 else ()
    stated = statement_of(
        Verification(
            wheel=name,
            sha256=theirs.sha256,
            rebuilt_sha256=found.build.sha256,
            when=datetime.datetime.now(tz=datetime.timezone.utc),
            differences=(*found.differences[:_DIFFERENCES], *beyond),
            materials=found.materials,
            inputs=(
                (f"published:{name}{publication.STATEMENT}", sha256_of_file(theirs.statement_file)),
                (f"rebuilt:{ours.name}", sha256_of_file(ours)),
            ),
        ),
        VERIFIER if isinstance(by, Sigstore) else by.public.verifier,
    )
    folder.mkdir(parents=True, exist_ok=True)
    who: PublicKey | Identity
    if isinstance(by, Sigstore):
        who, content = by.sign(stated)
    else:
        who, content = by.public, sign_statement(stated, by)
    path = folder / statement_name(name, who)
    write_atomically(path, content)
    return path
