"""What `nox -s lint` runs, without running it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import nox.registry
import pytest

from cuwheel.base.paths import ROOT


def commands_of_lint(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What `nox -s lint` runs in the development environment, for the files of a folder."""
    monkeypatch.setattr(nox.registry, "_REGISTRY", {})
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert spec is not None
    assert spec.loader is not None
    noxfile = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(noxfile)
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(noxfile, "ROOT", str(root))
    monkeypatch.setattr(noxfile, "run_command", lambda *_: None)
    monkeypatch.setattr(noxfile, "run", lambda _, __, *command, **___: found.append(command))
    noxfile.lint(SimpleNamespace(posargs=(), invoked_from=""))
    return found
