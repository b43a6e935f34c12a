"""Ten machines on paper: what `pick` says of them, from index pages that were recorded.

`python -m tests.support.check.described_machines record DIST` reads the configured index again, and
takes our own wheels from a folder; `… write` writes the table of docs/how-to/pick.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from cuwheel.base.fetch.indexes.indexes import configured_indexes
from cuwheel.base.fetch.indexes.offers import Offer, read_metadata
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.formats.wheel.metadata import headers
from cuwheel.base.paths import ROOT
from cuwheel.build.wheelhouse.entries import read_entries
from cuwheel.check.pick import choice
from cuwheel.check.pick.choice import query_indexes
from cuwheel.check.pick.document import PickDocument, PickedWheel
from tests.support.check.offers import find_on
from tests.support.servers.http import Site, serving

RECORDED = ROOT / "tests" / "recorded" / "offers.json"
PAGE = ROOT / "docs" / "how-to" / "pick.md"
START, END = "<!-- ten machines -->\n", "<!-- end -->\n"
_FILES = 320  # of each project at most, those of the newest releases
_KEPT = ("name", "version", "requires-python", "requires-dist")

# Package, and what stands behind --for.
MACHINES = (
    ("bitsandbytes", "python=3.12,torch=2.11,cuda=13.0,arch=90,glibc=2.36,driver=580.95.05"),
    ("bitsandbytes", "python=3.12,torch=2.11,cuda=13.0,platform=aarch64,arch=121,glibc=2.39"),
    ("bitsandbytes", "python=3.11,torch=2.5.1,cuda=12.4,arch=70,glibc=2.17,driver=535.261.03"),
    ("torch", "python=3.12,cuda=12.8,arch=80,glibc=2.28,driver=535.261.03"),
    ("torch", "python=3.12,arch=75,glibc=2.31,driver=470.256.02"),
    ("torch", "python=3.14t,cuda=13.0,arch=120,glibc=2.39,driver=580.95.05"),
    ("xformers", "python=3.12,torch=2.9.1,cuda=12.8,arch=90,glibc=2.36,driver=570.211.01"),
    ("jax-cuda13-plugin", "python=3.12,arch=80,glibc=2.35,driver=570.211.01"),
    ("flash-attn", "python=3.12,torch=2.11,cuda=13.0,arch=90,glibc=2.36,driver=580.95.05"),
    ("jax-finufft-cuda13x", "python=3.12,arch=90,glibc=2.36,driver=580.95.05"),
)


def serve(stack: ExitStack) -> str:
    """The recorded pages on a server; gives the address of their index."""
    site = Site(headers={"Content-Type": "application/vnd.pypi.simple.v1+json"})
    recorded = json.loads(RECORDED.read_text())
    for project, files in recorded.items():
        page = {"meta": {"api-version": "1.1"}, "name": project, "versions": [], "files": []}
        for name, facts in files.items():
            page["files"].append(
                {
                    "filename": name,
                    "url": f"/files/{quote(name)}",
                    "hashes": {"sha256": facts["sha256"]},
                    "size": facts["size"],
                    "core-metadata": "metadata" in facts,
                    **({"requires-python": python} if (python := facts.get("python")) else {}),
                }
            )
            for suffix in ("metadata", "provenance.json"):
                if suffix in facts:
                    site.files[f"/files/{name}.{suffix}"] = facts[suffix].encode()
        site.files[f"/simple/{project}/"] = json.dumps(page).encode()
    return stack.enter_context(serving(site)).url("/simple/")


def table() -> Iterator[str]:
    """The table's lines."""
    yield "| package | `--for` | answer |"
    yield "| --- | --- | --- |"
    with ExitStack() as stack:
        address = serve(stack)
        for project, paper in MACHINES:
            report = find_on(address, paper=_on_x86(paper), wanted=project)
            answer = _taken(report.wheel) if report.wheel else _none(report)
            yield f"| {project} | `{paper.replace(',', ', ')}` | {answer} |"


def _on_x86(paper: str) -> str:
    return paper if "platform=" in paper else f"{paper},platform=x86_64"


def _taken(wheel: PickedWheel) -> str:
    unknown = ", ".join(one.kind for one in wheel.unknown)
    return f"`{wheel.name}`" + f"; not known: {unknown}" * bool(unknown)


def _none(report: PickDocument) -> str:
    if report.nearest:
        reasons = "; ".join(f"{one.kind}: {one.text}" for one in report.nearest.reasons)
        return f"none; nearest `{report.nearest.name}`: {reasons}"
    return f"no wheel; `{report.sdist}` would be compiled" if report.sdist else "nothing"


def write() -> None:
    """Write the table into the page."""
    head, _, rest = PAGE.read_text().partition(START)
    tail = rest.partition(END)[2]
    PAGE.write_text(head + START + "\n".join(table()) + "\n" + END + tail)


def record(dist: Path) -> None:
    """Ask the configured index, and keep what it says."""
    recorded: dict[str, dict[str, Any]] = {}
    for entry in read_entries(dist, {}, writes=False):
        path = dist / entry.name
        recorded.setdefault(canonicalize_name(entry.project), {})[entry.name] = {
            "sha256": entry.sha256,
            "size": entry.size,
            "python": entry.requires_python,
            "metadata": _shortened(path.with_name(f"{path.name}.metadata").read_text()),
            "provenance.json": _parameters(path.with_name(f"{path.name}.provenance.json")),
        }
    index, *_ = configured_indexes(os.environ)
    for project in {project for project, _ in MACHINES} - recorded.keys():
        recorded[project] = dict(_newest_files(index, project))

    def remember(offer: Offer, attempts: Attempts) -> str:
        text = _shortened(read_metadata(offer, attempts))
        recorded[canonicalize_name(offer.name.partition("-")[0])][offer.name]["metadata"] = text
        return text

    with mock.patch.object(choice, "read_metadata", remember):
        for project, paper in MACHINES:
            if "provenance.json" not in str(recorded[project]):
                oldest = min(
                    Version(name.split("-")[1].removesuffix(".tar.gz"))
                    for name in recorded[project]
                )
                find_on(index, paper=_on_x86(paper), wanted=f"{project}>={oldest}")
    wanted = {project for project, _ in MACHINES}
    kept = {project: recorded[project] for project in sorted(wanted)}
    RECORDED.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")


def _newest_files(index: str, project: str) -> Iterator[tuple[str, dict[str, Any]]]:
    files = query_indexes(Requirement(project), [index]).files
    final = [one for one in files if not one.version.is_prerelease]
    newest = sorted(final, key=lambda one: one.version, reverse=True)[:_FILES]
    for one in newest:
        facts = {"sha256": one.sha256, "size": one.size, "python": one.requires_python}
        yield one.name, facts


def _shortened(metadata: str) -> str:
    """The headers that decide."""
    return "".join(f"{name}: {value}\n" for name, value in headers(metadata) if name in _KEPT)


def _parameters(statement: Path) -> str:
    """Of a statement, what it is about and what was asked for."""
    content = json.loads(statement.read_text())
    definition = content["predicate"]["buildDefinition"]
    kept = {name: definition[name] for name in ("buildType", "externalParameters")}
    predicate = {"buildDefinition": kept}
    return json.dumps({"subject": content["subject"], "predicate": predicate})


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(Path(sys.argv[2]))
    else:
        write()
