"""Statements signed by an identity instead of a key: Sigstore bundles.

The library runs in an environment of its own, which is made when the first such statement is signed
or read; the engine asks `standalone/signing/bundles.py` there. Why: docs/adr/0033.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuwheel.attest.envelope import PAYLOAD_TYPE, StatementError, read_strictly
from cuwheel.errors import SigstoreError
from cuwheel.locks.tool_environment import tool_python
from cuwheel.standalone import script
from cuwheel.system.process import attach, run
from cuwheel.system.regular_files import read_json
from cuwheel.workspace.workspace import bare_workspace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cuwheel.system.console import Console


_MEDIA_TYPE = "application/vnd.dev.sigstore.bundle"
_SHOWN = 16  # characters of an id
VERIFIER = "sigstore"  # who such a statement says that it is by: the certificate names them


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who signs without a key.

    Attributes:
        identity: what the certificate names: an address of a workflow, or of a mailbox.
        issuer: address of the OpenID provider that says so.
    """

    identity: str
    issuer: str

    @property
    def id(self) -> str:
        """SHA-256 of issuer and identity, a line each; 64 hexadecimal digits."""
        return hashlib.sha256(f"{self.issuer}\n{self.identity}\n".encode()).hexdigest()

    @property
    def verifier(self) -> str:
        """What a statement by them calls its verifier."""
        return VERIFIER

    @property
    def kind(self) -> str:
        """What it is, for messages."""
        return "identity"

    @property
    def shown(self) -> str:
        """What messages call it."""
        return f"identity {self.identity}"

    @property
    def file_ending(self) -> str:
        """What the names of its statements end in."""
        return f"{self.id[:_SHOWN]}.sigstore.json"


Opened = tuple[dict[str, Any], Identity]


def is_bundle(content: bytes) -> bool:
    """Whether a statement is signed by an identity."""
    try:
        return str(read_strictly(content, "it").get("mediaType")).startswith(_MEDIA_TYPE)
    except StatementError:
        return False


def open_bundles(
    contents: Sequence[bytes],
    identities: Sequence[Identity],
    trusted_root: Path | None,
    console: Console,
) -> dict[bytes, Opened | StatementError]:
    """What bundles say and by which of some identities they are; no server is asked.

    Args:
        contents: of the files.
        identities: those that count.
        trusted_root: a `trusted_root.json`; None: the roots of the public Sigstore that the library
            brings.
        console: shows how the library's environment is made.

    Returns:
        Of each content what is signed and by whom, or why it doesn't count.

    Raises:
        SigstoreError: the roots can't be read.
    """
    if not contents:
        return {}
    if not identities:
        fault = StatementError("it is signed by an identity, and the policy names none")
        return dict.fromkeys(contents, fault)
    question = {
        "bundles": [one.decode() for one in contents],
        "identities": [(one.identity, one.issuer) for one in identities],
        "trusted_root": str(trusted_root.absolute()) if trusted_root else "",
    }
    said = _ask("verify", question, console)
    if "error" in said:
        raise SigstoreError(
            f"the roots of Sigstore can't be read{f' from {trusted_root}' if trusted_root else ''}",
            why=said["error"],
            fix="name a trusted_root.json as Sigstore publishes it: `trusted-root FILE` in the "
            "policy, beside which it is looked for",
        )
    return {
        content: _read_opened(one, identities)
        for content, one in zip(contents, said["opened"], strict=True)
    }


def check_sigstore(console: Console) -> None:
    """See that the public Sigstore answers, before anything that it is to sign is made.

    Raises:
        SigstoreError: it doesn't.
    """
    _raise_if_unsigned(_ask("reach", {}, console))


def sign_bundle(statement: str, console: Console) -> tuple[Identity, str]:
    """Sign a statement by the job's own identity, else by who logs in; the result is public.

    Raises:
        SigstoreError: it can't be signed, as without a network.
    """
    said = _ask("sign", {"statement": statement}, console)
    _raise_if_unsigned(said)
    return Identity(identity=said["identity"], issuer=said["issuer"]), f"{said['bundle']}\n"


def _raise_if_unsigned(said: Mapping[str, Any]) -> None:
    if "error" in said:
        raise SigstoreError(
            "Sigstore can't be used to sign, and no statement is written",
            why=said["error"],
            fix="in GitHub Actions give the job `id-token: write`; elsewhere a browser has to open "
            "for the login, and fulcio.sigstore.dev, rekor.sigstore.dev and "
            "tuf-repo-cdn.sigstore.dev have to be reachable; or sign by a key: --key FILE",
        )


def _ask(verb: str, question: Mapping[str, Any], console: Console) -> dict[str, Any]:
    python = tool_python("sigstore", bare_workspace(console))
    with tempfile.TemporaryDirectory(prefix="cuwheel-") as folder:
        asked, answer = Path(folder) / "question.json", Path(folder) / "answer.json"
        asked.write_text(json.dumps(question))
        command: list[str | Path] = [python, "-I"]
        command += [script("signing/bundles.py"), verb, asked, answer]
        if verb == "sign":
            attach(command, env=os.environ)  # it may ask for a login
        else:
            # To verify, the roots that the library brings: none that an earlier run has fetched.
            own = {"XDG_DATA_HOME": folder, "XDG_CACHE_HOME": folder}
            run(command, env={**os.environ, **own}, check=False)
        said = read_json(answer) if answer.exists() else None
    return said if isinstance(said, dict) else {"error": "its program ended without an answer"}


def _read_opened(one: Mapping[str, Any], identities: Sequence[Identity]) -> Opened | StatementError:
    if "fault" in one:
        return StatementError(f"Sigstore's library refuses it: {one['fault']}")
    if one["kind"] != PAYLOAD_TYPE:
        return StatementError(f"its payloadType is {one['kind']!r}, not {PAYLOAD_TYPE}")
    try:
        stated = read_strictly(base64.b64decode(one["payload"]), "its payload")
    except StatementError as problem:
        return problem
    return stated, identities[one["by"]]
