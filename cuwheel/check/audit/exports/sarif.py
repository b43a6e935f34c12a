"""Findings of audits in SARIF 2.1.0 (OASIS), which code scanning and editors read.

A wheel has no lines, so each finding is at its first: GitHub shows none without a region.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cuwheel.base.system.files import write_atomically
from cuwheel.check.audit.findings import AuditFinding
from cuwheel.check.audit.verdict import AuditResult
from cuwheel.version import __version__

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def write_sarif(path: Path, results: Iterable[tuple[Path, AuditResult]], folder: Path) -> None:
    """Write the findings of some wheels into a file.

    Args:
        results: each with the path of the wheel.
        folder: the one that paths of wheels are made relative to: the checkout.
    """
    rules: dict[str, dict[str, Any]] = {}
    found = [
        _result(item, wheel, folder, rules) for wheel, result in results for item in result.findings
    ]
    driver = {"name": "cuwheel", "version": __version__, "rules": [*rules.values()]}
    run = {"tool": {"driver": driver}, "results": found, "columnKind": "unicodeCodePoints"}
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    write_atomically(path, json.dumps(document, indent=1) + "\n")


def _result(
    item: AuditFinding, wheel: Path, folder: Path, rules: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    name = item.anchor.rpartition("#")[2]
    help_text = f"cuwheel explain {name}"
    rule = {"id": name, "shortDescription": {"text": item.rule}, "help": {"text": help_text}}
    rules.setdefault(name, rule)
    member = {"fullyQualifiedName": item.file, "kind": "member"}
    artifact = {"artifactLocation": {"uri": _uri(wheel, folder)}, "region": {"startLine": 1}}
    return {
        "ruleId": name,
        "ruleIndex": [*rules].index(name),
        "level": item.severity,
        "message": {"text": f"{item.file}: {item.fact}"},
        "locations": [{"physicalLocation": artifact, "logicalLocations": [member]}],
    }


def _uri(wheel: Path, folder: Path) -> str:
    """Return a path relative to the folder, or else a `file:` address (RFC 8089)."""
    try:
        relative = wheel.absolute().relative_to(folder.absolute())
    except ValueError:
        return wheel.absolute().as_uri()
    return urllib.parse.quote(relative.as_posix())
