"""A repository that is taken for this checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.publish.rebuild import commits
from tests.support.machines.clones import commit_all, git


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "clone"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    (root / "x.py").write_text("first")
    monkeypatch.setattr(commits, "ROOT", root)
    commit_all(root)
    return root
