"""The session `rebuild`: a published wheel built again from the inputs in its provenance."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import rich.console

from cuwheel.base.caller import Caller
from cuwheel.base.formats.signing_keys import PublicKey, SigningKey
from cuwheel.base.formats.wheel import publication
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import sha256_of_file, write_atomically
from cuwheel.base.system.folders.output_folder import make_empty
from cuwheel.build.sandbox.backends import choose_sandbox
from cuwheel.build.sandbox.containers.image import parse_image
from cuwheel.build.workspace.workspace import SCRATCH_FOLDER
from cuwheel.publish.rebuild.attest.check import statement_name
from cuwheel.publish.rebuild.attest.signatures import sign_statement
from cuwheel.publish.rebuild.attest.sigstore import VERIFIER, Identity, Sigstore
from cuwheel.publish.rebuild.attest.verification import Verification, statement_of
from cuwheel.publish.rebuild.builds import Variation
from cuwheel.publish.rebuild.commits import checked_out, is_at_hand, projects_in, why_not_at_hand
from cuwheel.publish.rebuild.inputs import (
    check_is_enough,
    differing_inputs,
    keep_declarations,
    refuse_other_inputs,
    target_of,
)
from cuwheel.publish.rebuild.published import PublishedWheel
from cuwheel.publish.rebuild.verify import VerifiedAgainst, verify_against

_DIFFERENCES = 200  # lines that a statement has at most; the comparison has all


@dataclass(frozen=True, kw_only=True)
class RebuildRequest:
    """A request to build a published wheel again.

    Attributes:
        options: of the `build` command, in addition to those that the provenance gives.
        source: what `--source` gave; None: it is fetched.
        target_root: root folder of another kind of machine; None: none was named.
        sandbox: `--sandbox`.
    """

    theirs: PublishedWheel
    folder: Path
    caller: Caller
    options: tuple[str, ...] = ()
    source: Path | None = None
    target_root: Path | None = None
    is_here: bool = False
    sandbox: str = "auto"
    remotes: tuple[str, ...] = ()


def rebuild_published(
    request: RebuildRequest, console: Console, out: rich.console.Console
) -> VerifiedAgainst:
    """Build a published wheel again, with the files that its provenance names, and compare.

    Raises:
        UsageError: the provenance lacks something.
        NotReproducibleError: neither this checkout nor a commit of this clone has those files.
        BuildFailedError: the build failed.
    """
    theirs = request.theirs
    check_is_enough(theirs, request.source, request.target_root)
    command = [target_of(theirs), *theirs.request.argv(), *request.options]
    command += ["--source", str(request.source)] if request.source else []
    if theirs.foreign_platform:  # an older checkout's cuwheel doesn't know the option
        command += ["--target-root", str(request.target_root)]
    if image := theirs.parameters.get("container"):
        command += ["--container", parse_image(image).reference]
    again = request.folder / "again"
    make_empty(again, SCRATCH_FOLDER)  # an earlier one would count as this wheel's build
    tag = ("--build-tag", str(theirs.build_tag)) if theirs.build_tag else ()
    with _checkout(request, console) as (root, projects):
        how = Variation(
            name="again",
            caller=request.caller,
            description="from the inputs that the provenance names, compiling everything",
            work=again / "work",
            dist=again / "dist",
            # An older cuwheel builds without a sandbox where the named one is missing.
            sandbox=request.sandbox if image else choose_sandbox(request.sandbox),
            options=("--no-cache", *tag),  # the cache may hold objects of the published wheel
            variables={"CUWHEEL_PROJECT": os.pathsep.join(map(str, projects))},
            root=root,
        )
        return verify_against(command, theirs, how, console, out)


@contextlib.contextmanager
def _checkout(request: RebuildRequest, console: Console) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """Provide the checkout that has the inputs of the wheel, and its folders of recipes."""
    theirs, projects = request.theirs, request.caller.roots
    differing = differing_inputs(theirs, ROOT, projects)
    if request.is_here or not differing:
        for line in differing:
            console.warn(f"another input: {line}")
        yield ROOT, projects
        return
    if not is_at_hand(theirs.commit, request.remotes):
        refuse_other_inputs(theirs, differing, why_not_at_hand(theirs.commit))
    for line in differing:
        console.note(f"another input: {line}")
    console.note(f"so it is built from commit {theirs.commit}")
    with checked_out(theirs.commit, request.folder / "checkout") as root:
        there = projects_in(root, projects)
        refuse_other_inputs(
            theirs,
            differing_inputs(theirs, root, there),
            f"commit {theirs.commit} has the same difference: the files weren't committed "
            "when the wheel was built",
        )
        keep_declarations(theirs.recipe_file, root, there, theirs.commit)
        yield root, there


def sign_verification(verified: VerifiedAgainst, by: SigningKey | Sigstore, folder: Path) -> Path:
    """Write the result of a rebuild as a signed statement; return its path."""
    theirs, ours = verified.theirs, publication.statement_of(verified.build.wheel)
    name = theirs.wheel_name
    more = len(verified.differences) - _DIFFERENCES
    beyond = (f"and {more} more",) if more > 0 else ()
    stated = statement_of(
        Verification(
            wheel=name,
            sha256=theirs.sha256,
            rebuilt_sha256=verified.build.sha256,
            when=datetime.datetime.now(tz=datetime.timezone.utc),
            differences=(*verified.differences[:_DIFFERENCES], *beyond),
            materials=verified.materials,
            inputs=(
                (f"published:{name}{publication.STATEMENT}", sha256_of_file(theirs.statement_file)),
                (f"rebuilt:{ours.name}", sha256_of_file(ours)),
            ),
        ),
        VERIFIER if isinstance(by, Sigstore) else by.public.verifier,
    )
    folder.mkdir(parents=True, exist_ok=True)
    signer: PublicKey | Identity
    if isinstance(by, Sigstore):
        signer, content = by.sign(stated)
    else:
        signer, content = by.public, sign_statement(stated, by)
    path = folder / statement_name(name, signer)
    write_atomically(path, content)
    return path
