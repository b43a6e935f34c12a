"""A wheel of a source given with `--source`: named after it, stated, and never mistaken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cuwheel.base.formats.wheel.archive import open_wheel
from cuwheel.base.formats.wheel.publication import statement_of
from cuwheel.build.inputs.checkouts import commit_of
from tests.support.engine import PACKAGES, Engine
from tests.support.factories import commit_all

pytestmark = pytest.mark.e2e


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The tiny package in a git checkout, with a file that git doesn't track."""
    folder = tmp_path / "checkout"
    shutil.copytree(PACKAGES / "tiny_capi", folder)
    commit_all(folder)
    (folder / "src" / "tiny_capi" / ".env").write_text("TOKEN=secret")
    return folder


def test_changed_checkout_marks_wheel_and_statement(engine: Engine, checkout: Path) -> None:
    setup = checkout / "setup.py"
    setup.write_text(f"{setup.read_text()}\n# changed\n")

    done = engine.build("tiny-capi", "--source", str(checkout))

    assert done.status == 0, done.output
    [wheel] = engine.wheels()
    assert wheel.name.startswith("tiny_capi-1.0.0+cu130.source.h")
    with open_wheel(wheel) as opened:
        assert not any(".env" in name for name in opened.names)
        assert wheel.name.split("-")[1] in opened.read_text("METADATA")
    stated = json.loads(statement_of(wheel).read_text())["predicate"]["buildDefinition"]
    [source] = [one for one in stated["resolvedDependencies"] if one["name"].startswith("source ")]
    assert source["digest"]["sha256"][:12] in wheel.name
    assert source["digest"]["gitCommit"] == commit_of(checkout)
    assert source["annotations"]["version"].endswith("1 file changed: setup.py")


def test_refuses_source_of_another_package(engine: Engine) -> None:
    done = engine.build("tiny-capi", "--source", str(PACKAGES / "tiny_skbuild"))

    assert done.status != 0
    assert "of tiny-skbuild, not of tiny-capi" in done.output
    assert not engine.wheels()
