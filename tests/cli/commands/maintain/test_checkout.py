"""The site of docs/ takes the place of an earlier one, and of nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError
from cuwheel.base.system.console import Console
from cuwheel.cli.commands.maintain.checkout import put_site, run_package
from cuwheel.cli.dispatch import parser_of


def make_site(folder: Path, *names: str) -> Path:
    for name in ("index.html", ".buildinfo", *names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{names}")
    return folder


def test_leaves_pages_checkout_with_its_repository(tmp_path: Path) -> None:
    target = tmp_path / "pages"
    (target / ".git").mkdir(parents=True)
    (target / "CNAME").write_text("wheels.example")

    put_site(make_site(tmp_path / "first", "old/page.html"), target)
    put_site(make_site(tmp_path / "second", "new/page.html"), target)

    assert (target / "CNAME").read_text() == "wheels.example"
    assert sorted(path.name for path in target.iterdir() if path.is_dir()) == [".git", "new"]


def test_leaves_site_of_another_project(tmp_path: Path) -> None:
    target = make_site(tmp_path / "theirs", "guide.html")
    before = sorted(target.iterdir())

    with pytest.raises(UsageError):
        put_site(make_site(tmp_path / "built"), target)

    assert sorted(target.iterdir()) == before


def test_package_goes_into_no_folder_with_files(tmp_path: Path) -> None:
    (tmp_path / "other-1.0.tar.gz").touch()

    with pytest.raises(UsageError):
        run_package(parser_of("package").parse([str(tmp_path)]), Console(), Caller(os.environ))

    assert [path.name for path in tmp_path.iterdir()] == ["other-1.0.tar.gz"]
