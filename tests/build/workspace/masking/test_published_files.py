"""No published file holds a secret, with any escapes of its writer."""

from __future__ import annotations

import ast
import dataclasses
import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.paths import ROOT
from cuwheel.build.wheelhouse.folder_index import write_index
from cuwheel.lab.matrix.state import CellState
from cuwheel.lab.matrix.table import write_page
from cuwheel.lab.nightly.cycle import run_cycle
from cuwheel.lab.nightly.page import run_hook, write_summary
from cuwheel.publish.index.site import SiteRequest, write_site
from tests.support.lab.nightly_runs import (
    make_options,
    make_recorder,
    make_unbuilt_cell,
    python_command,
)
from tests.support.publish.releases import Project

_VALUE = "it's <correct> & horse_battery"  # HTML, JSON and Markdown escape parts of it
_PLANTED = (
    f"got {_VALUE}, ghp_{'zqxj' * 9}, https://me:hunter2@host.invalid/x and password: 'hunter2 pw'"
)
_SECRETS = ("horse_battery", "zqxj", "hunter2", "2 pw")  # none of them is a part of a SHA-256
# Modules of the publishing rooms that write files and don't mask, and why they needn't.
_NEEDS_NO_MASK = {
    "publish/index/check/snapshot.py": "a caller's file",
    "build/wheelhouse/entries.py": "METADATA, which `refuse_secrets_in_wheels` has read; the cache",
    "build/wheelhouse/facts.py": "the cache",
    "build/wheelhouse/folder_index.py": "entries of wheels and yanks, masked or refused before",
    "publish/index/publishing.py": "copies of what `site` has checked",
    "lab/matrix/slurm_job.py": "logs of jobs in the work folder",
    "lab/nightly/cycle.py": "copies of perf.json, masked by `measuring`",
    "lab/perf/report.py": "runs, masked by `measuring`",
}
_WRITERS = {"write_files", "write_atomically", "write_text", "write_bytes", "new_file"}


def plant_in_wheels(project: Project) -> None:
    wheel = project.add()
    (project.dist / "yanked.json").write_text(json.dumps({wheel.name: _PLANTED}))


def publish_index(folder: Path) -> Path:
    project = Project(folder=folder)
    plant_in_wheels(project)
    return write_index(project.dist)


def publish_site(folder: Path) -> Path:
    project = Project(folder=folder)
    plant_in_wheels(project)
    write_site(SiteRequest(folders=(project.dist,), site=project.site, cache=folder / "cache"))
    return project.site


def publish_release(folder: Path) -> Path:
    project = Project(folder=folder)
    wheel = project.add()
    project.measure(wheel, notes=(_PLANTED,), against=_PLANTED, variables={"X_TOKEN": _PLANTED})
    record = project.dist / ".cuwheel" / "tiny-130-cp312.failed.json"
    record.parent.mkdir()
    fields = dict.fromkeys(("what", "why", "fix"), _PLANTED)
    record.write_text(
        json.dumps({**fields, "date": "2026-11-23", "exit_code": 1, "anchor": "x", "log": ""})
    )
    record.with_suffix(".log").write_text(_PLANTED)
    project.publish()
    return project.site


def publish_matrix(folder: Path) -> Path:
    cell = make_unbuilt_cell(folder)
    dist = folder / "published"
    dist.mkdir()
    write_page([CellState(cell=cell, kind="outdated", detail=_PLANTED)], dist, "now")
    return dist


def publish_nightly(folder: Path) -> Path:
    recorder = make_recorder(folder / "run")
    more = folder / "program.log"
    more.write_text(_PLANTED)
    code = f"print('error:', {_PLANTED!r}); raise SystemExit(61)"
    recorder.run_step("build", python_command(code), failure_log=more)
    options = make_options(folder / "reports", gpus=())

    def refuse_cells(_: object) -> tuple[()]:
        raise UsageError(_PLANTED, why=_PLANTED, fix=_PLANTED)

    run_cycle(dataclasses.replace(options, choose=refuse_cells), recorder)
    write_summary(recorder.run, recorder.folder)
    run_hook('echo "$MY_TOKEN"', recorder.folder, recorder.environ)
    return recorder.folder


@pytest.mark.parametrize(
    "publish",
    [
        *(publish_index, publish_site, publish_matrix),
        pytest.param(publish_release, marks=pytest.mark.e2e),
        pytest.param(publish_nightly, marks=pytest.mark.e2e),
    ],
)
def test_no_published_file_holds_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, publish: Callable[[Path], Path]
) -> None:
    monkeypatch.setenv("MY_TOKEN", _VALUE)

    published = publish(tmp_path)

    files = [path for path in published.rglob("*") if path.is_file() and path.suffix != ".whl"]
    texts = {path: _unescaped(path.read_text(errors="replace")) for path in files}
    leaks = {(path, part) for path, text in texts.items() for part in _SECRETS if part in text}
    assert leaks == set()
    assert any("<masked: value of MY_TOKEN>" in text for text in texts.values())


def test_every_publishing_module_masks_or_has_a_reason() -> None:
    rooms = (
        *("build/wheelhouse", "publish/index", "publish/release"),
        *("lab/matrix", "lab/nightly", "lab/perf"),
    )
    modules = [path for room in rooms for path in (ROOT / "cuwheel" / room).rglob("*.py")]
    modules.append(ROOT / "cuwheel" / "cli" / "measuring.py")

    unmasked = {
        str(path.relative_to(ROOT / "cuwheel"))
        for path in modules
        if (names := _names_in(path)) & _WRITERS and "cuwheel.build.workspace.masking" not in names
    }

    assert unmasked == set(_NEEDS_NO_MASK)


def _names_in(path: Path) -> set[str]:
    """Return the names that a module calls, and the modules that it imports from."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    calls = {
        ast.unparse(node.func).rpartition(".")[2] for node in nodes if isinstance(node, ast.Call)
    }
    return calls | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", html.unescape(text))
