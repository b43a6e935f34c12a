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
from cuwheel.system.process import run
from cuwheel.system.regular_files import read_json
from cuwheel.workspace.workspace import bare_workspace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cuwheel.system.console import Console


_MEDIA_TYPE = "application/vnd.dev.sigstore.bundle"
_SHOWN = 16  # characters of an id
VERIFIER = "sigstore"  # who such a statement says that it is by: the certificate names them
_TIMEOUT = 600  # seconds; the library's own requests may wait for ever
_LINES = 3  # of what its program said last, where it broke down
# What a part of the library's words (4.5.1) means for a rebuilder's statement.
_MEANINGS = {
    "SANs do not match": "it is signed by an identity that the policy doesn't name",
    "OIDCIssuer does not match": "the identity is from another provider",
    "certificate chain": "its certificate isn't from these roots, or wasn't valid at signing",
    "SCT on signing certificate": "its certificate is in no certificate log of these roots",
    "invalid log entry": "its log entry is not signed by a log of these roots",
    "exactly one log entry": "it is in no public log",
    "inclusionProof": "there is no proof that it is in a log",
    "must contain an inclusion promise": "no log states the time of its signature",
    "invalid signature": "it was changed after it was signed",
    "match bundle": "the log's entry is for another statement",
}


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
            fix="name a trusted_root.json as Sigstore publishes it, in the policy's line "
            "`trusted-root FILE`, relative to the policy's folder",
        )
    return {
        content: _read_opened(one, identities)
        for content, one in zip(contents, said["opened"], strict=True)
    }


@dataclass(frozen=True, kw_only=True)
class Sigstore:
    """Where this job's own identity signs, in public.

    Attributes:
        trust_config: a client trust configuration, `trust_config.json`; None: the public Sigstore.
        console: shows how the library's environment is made.
    """

    trust_config: Path | None
    console: Console

    def check(self) -> None:
        """See that the job has an identity and the service is known, before anything is built.

        Raises:
            SigstoreError: one of both isn't so.
        """
        self._ask("check")

    def sign(self, statement: str) -> tuple[Identity, str]:
        """The bundle of a statement, and who has signed it, as the certificate names them.

        Raises:
            SigstoreError: it isn't signed.
        """
        said = self._ask("sign", statement=statement)
        return Identity(identity=said["identity"], issuer=said["issuer"]), f"{said['bundle']}\n"

    def _ask(self, verb: str, **question: str) -> dict[str, Any]:
        named = str(self.trust_config.absolute()) if self.trust_config else ""
        said = _ask(verb, {**question, "trust_config": named}, self.console)
        if "error" in said:
            raise SigstoreError(
                "signing with Sigstore failed, and no statement is written",
                why=said["error"],
                fix="run it in a CI job that has an identity (GitHub Actions: `permissions: "
                "id-token: write`) and reaches Sigstore, or sign with a key: --key FILE",
            )
        return said


def _ask(verb: str, question: Mapping[str, Any], console: Console) -> dict[str, Any]:
    """What the library answers, or an `error`.

    Raises:
        InstallError: its environment can't be made.
    """
    python = tool_python("sigstore", bare_workspace(console))
    with tempfile.TemporaryDirectory(prefix="cuwheel-") as folder:
        asked, answer = Path(folder) / "question.json", Path(folder) / "answer.json"
        asked.write_text(json.dumps(question))
        # The roots that the library brings or fetches now: none that an earlier run has left.
        own = {"XDG_DATA_HOME": folder, "XDG_CACHE_HOME": folder}
        done = run(
            [python, "-IB", script("signing/bundles.py"), verb, asked, answer],
            env={**os.environ, **own},
            check=False,
            timeout=_TIMEOUT,
        )
        said = read_json(answer) if done.status == 0 else None
    if isinstance(said, dict):
        return said
    last = "; ".join(done.output.split("\n")[-_LINES:]).strip("; ") or "it printed nothing"
    return {
        "error": f"its program ended with status {done.status} after {done.duration:.0f} s: {last}"
    }


def _read_opened(one: Mapping[str, Any], identities: Sequence[Identity]) -> Opened | StatementError:
    if "fault" in one:
        said = (means for words, means in _MEANINGS.items() if words in one["fault"])
        means = next(said, "it is not a readable bundle")
        return StatementError(f"{means} (Sigstore's library: {one['fault']})")
    if one["kind"] != PAYLOAD_TYPE:
        return StatementError(f"its payloadType is {one['kind']!r}, not {PAYLOAD_TYPE}")
    try:
        stated = read_strictly(base64.b64decode(one["payload"]), "its payload")
    except StatementError as problem:
        return problem
    return stated, identities[one["by"]]
