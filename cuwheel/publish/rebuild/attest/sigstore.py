"""Sigstore bundles: statements signed by an identity instead of a key.

The library runs in an environment of its own, made when the first such statement is signed or read;
the engine runs `publish/rebuild/signing/bundles.py` there. Why: docs/adr/0033.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from cuwheel.base.errors import PolicyError
from cuwheel.base.paths import script
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import read_json
from cuwheel.build.locks.tool_environment import tool_python
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.publish.rebuild.attest.signatures import PAYLOAD_TYPE, StatementError, read_strictly

_MEDIA_TYPE = "application/vnd.dev.sigstore.bundle"
_SHOWN = 16  # characters of an id
VERIFIER = "sigstore"  # verifier of such a statement: its certificate names the signer
_TIMEOUT = 600  # seconds; the library's own requests may wait for ever
_LINES = 3  # of a failed program's output
# Parts of the library's messages (4.5.1), and their meaning for a rebuilder's statement.
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
    """A signer without a key.

    Attributes:
        identity: in the certificate: an address of a workflow, or of a mailbox.
    """

    identity: str
    issuer: str
    kind: ClassVar[str] = "identity"
    verifier: ClassVar[str] = VERIFIER

    @property
    def id(self) -> str:
        """SHA-256 of issuer and identity, a line each; 64 hexadecimal digits."""
        return hashlib.sha256(f"{self.issuer}\n{self.identity}\n".encode()).hexdigest()

    @property
    def file_ending(self) -> str:
        """The ending of its statements' file names."""
        return f"{self.id[:_SHOWN]}.sigstore.json"

    def __str__(self) -> str:
        """Return its name in messages."""
        return f"identity {self.identity}"


Opened = tuple[dict[str, Any], Identity]


def is_bundle(content: bytes) -> bool:
    """Return True if a statement is signed by an identity."""
    try:
        return str(read_strictly(content, "it").get("mediaType")).startswith(_MEDIA_TYPE)
    except StatementError:
        return False


def open_bundles(
    contents: Sequence[bytes],
    identities: Sequence[Identity],
    trusted_root: Path | None,
    workspace: Workspace,
) -> dict[bytes, Opened | StatementError]:
    """Return the content and the identity of each bundle, or a fault; works offline.

    Args:
        trusted_root: a `trusted_root.json`; None: the roots of the public Sigstore that the library
            brings.

    Raises:
        PolicyError: the roots can't be read.
    """
    if not contents:
        return {}
    if not identities:
        fault = StatementError("it is signed by an identity, and the policy names none")
        return dict.fromkeys(contents, fault)
    question = {
        "bundles": [content.decode() for content in contents],
        "identities": [(identity.identity, identity.issuer) for identity in identities],
        "trusted_root": str(trusted_root.absolute()) if trusted_root else "",
    }
    answer = _ask("verify", question, workspace)
    if "error" in answer:
        raise PolicyError(
            f"the roots of Sigstore can't be read{f' from {trusted_root}' if trusted_root else ''}",
            why=answer["error"],
            fix="name a trusted_root.json as Sigstore publishes it, in the policy's line "
            "`trusted-root FILE`, relative to the policy's folder",
        )
    return {
        content: _read_opened(opened, identities)
        for content, opened in zip(contents, answer["opened"], strict=True)
    }


@dataclass(frozen=True, kw_only=True)
class Sigstore:
    """The service in which this job's own identity signs, in public.

    Attributes:
        trust_config: a client trust configuration, `trust_config.json`; None: the public Sigstore.
    """

    trust_config: Path | None
    workspace: Workspace

    def check(self) -> None:
        """Raise a PolicyError unless the job has an identity and the service is known."""
        self._ask("check")

    def sign(self, statement: str) -> tuple[Identity, str]:
        """Sign a statement; return the identity in its certificate, and the bundle."""
        answer = self._ask("sign", statement=statement)
        return Identity(
            identity=answer["identity"], issuer=answer["issuer"]
        ), f"{answer['bundle']}\n"

    def _ask(self, verb: str, **question: str) -> dict[str, Any]:
        named = str(self.trust_config.absolute()) if self.trust_config else ""
        answer = _ask(verb, {**question, "trust_config": named}, self.workspace)
        if "error" in answer:
            raise PolicyError(
                "signing with Sigstore failed, and no statement is written",
                why=answer["error"],
                fix="run it in a CI job that has an identity (GitHub Actions: `permissions: "
                "id-token: write`) and reaches Sigstore, or sign with a key: --key FILE",
            )
        return answer


def _ask(verb: str, question: Mapping[str, Any], workspace: Workspace) -> dict[str, Any]:
    """Return the result of the library, or an `error`."""
    python = tool_python("sigstore", workspace)
    with temporary_folder() as folder:
        request, answer = folder / "question.json", folder / "answer.json"
        request.write_text(json.dumps(question))
        # Only roots that the library brings or fetches now, none of an earlier run.
        folders = {"XDG_DATA_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
        done = run(
            [python, "-IB", script("publish/rebuild/signing/bundles.py"), verb, request, answer],
            env={**workspace.environ, **folders},
            check=False,
            timeout=_TIMEOUT,
        )
        result = read_json(answer) if done.status == 0 else None
    if isinstance(result, dict):
        return result
    last = "; ".join(done.output.split("\n")[-_LINES:]).strip("; ") or "it printed nothing"
    return {
        "error": f"its program ended with status {done.status} after {done.duration:.0f} s: {last}"
    }


def _read_opened(
    opened: Mapping[str, Any], identities: Sequence[Identity]
) -> Opened | StatementError:
    if "fault" in opened:
        meanings = (means for text, means in _MEANINGS.items() if text in opened["fault"])
        means = next(meanings, "it is not a readable bundle")
        return StatementError(f"{means} (Sigstore's library: {opened['fault']})")
    if opened["kind"] != PAYLOAD_TYPE:
        return StatementError(f"its payloadType is {opened['kind']!r}, not {PAYLOAD_TYPE}")
    try:
        stated = read_strictly(base64.b64decode(opened["payload"]), "its payload")
    except StatementError as problem:
        return problem
    return stated, identities[opened["by"]]
