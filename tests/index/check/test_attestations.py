"""What is wrong with provenance objects (PEP 740)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from cuwheel.index.check.attestations import attestation_faults

NAME = "toy-1.0-py2.py3-none-any.whl"
SHA256 = "a" * 64


def provenance(name: str = NAME, sha256: str = SHA256, **more: Any) -> bytes:
    statement = {"subject": [{"name": name, "digest": {"sha256": sha256}}]}
    encoded = base64.b64encode(json.dumps(statement).encode()).decode()
    bundles = [{"attestations": [{"envelope": {"statement": encoded}}]}]
    return json.dumps({"version": 1, "attestation_bundles": bundles, **more}).encode()


def faults(content: bytes) -> str:
    return "; ".join(attestation_faults(content, NAME, SHA256))


def test_finds_nothing_in_those_of_the_file() -> None:
    assert faults(provenance()) == ""
    assert faults(provenance(name="toy-1.0-py3.py2-none-any.whl")) == ""  # PEP 740: the same


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (provenance(name="toy-2.0-py3-none-any.whl"), "about toy-2.0-py3-none-any.whl"),
        (provenance(name="toy-1.0.tar.gz"), "about toy-1.0.tar.gz"),
        (provenance(sha256="b" * 64), f"SHA-256 {'b' * 64}, the page says {SHA256}"),
        (provenance(version=2), "has version 2"),
        (provenance(attestation_bundles=[]), "contains no attestation"),
        (provenance(attestation_bundles=[{"attestations": [{}]}]), "format of PEP 740"),
        (b"[" * 100_000, "format of PEP 740"),
        (b"\xff", "format of PEP 740"),
        (b"[]", "format of PEP 740"),
    ],
)
def test_names_what_is_wrong(content: bytes, said: str) -> None:
    assert said in faults(content)
