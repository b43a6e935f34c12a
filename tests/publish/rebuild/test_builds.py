"""Which cuwheel builds; the builds are in tests/e2e/publish/test_verify.py and test_rebuild.py."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.errors import SandboxError
from cuwheel.base.paths import ROOT
from cuwheel.base.spelling import AS_MODULE
from cuwheel.base.system import process
from cuwheel.build.sandbox.backends import refusals, working_kinds
from cuwheel.publish.rebuild.builds import _cuwheel_of, variations
from tests.support.requirements import require


def test_checkout_with_another_lock_has_an_environment_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    lock = tmp_path / "envs" / "engine.lock"
    shutil.copy(ROOT / "envs" / "engine.lock", lock)

    assert _cuwheel_of(tmp_path) == [sys.executable, *AS_MODULE]

    lock.write_text(lock.read_text() + "# another\n")
    result = _cuwheel_of(tmp_path)
    assert result[0] == sys.executable
    assert result[2:] == ["-m", "cuwheel.bootstrap", "engine", "-m", "cuwheel"]


def test_runs_no_module_of_the_folder_that_it_starts_in(tmp_path: Path) -> None:
    (tmp_path / "cuwheel").mkdir()
    (tmp_path / "cuwheel" / "__init__.py").write_text("raise SystemExit('a stranger ran')")
    (tmp_path / "packaging.py").write_text("raise SystemExit('a stranger ran')")
    words = [*_cuwheel_of(ROOT), "build", "--help"]

    done = process.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path)

    assert "usage:" in done.output


def _caller(folder: Path) -> Caller:
    return Caller({**os.environ, "CUWHEEL_CACHE": str(folder / "cache")})


def test_varies_the_kinds_of_sandbox_and_never_does_without(tmp_path: Path) -> None:
    require("sandbox", "that verify varies the sandbox")
    kinds = working_kinds()

    usual, other, warm = variations(tmp_path / "v", _caller(tmp_path))

    assert (usual.sandbox, other.sandbox, warm.sandbox) == (kinds[0], kinds[-1], kinds[0])
    assert all(
        kind in other.description for kind in (*kinds, *refusals())
    )  # why it is one kind only


def test_does_without_a_sandbox_only_on_request(tmp_path: Path) -> None:
    usual, other, _ = variations(tmp_path / "v", _caller(tmp_path), "none")

    assert other.sandbox == "none"
    assert "no sandbox, as requested" in other.description
    assert usual.sandbox == next(iter(working_kinds()), "none")


def test_keeps_to_the_kind_that_is_named(tmp_path: Path) -> None:
    for kind in working_kinds():
        result = variations(tmp_path / "v", _caller(tmp_path), kind)
        assert {one.sandbox for one in result} == {kind}
    for kind in refusals():
        (tmp_path / "v").mkdir(exist_ok=True)
        with pytest.raises(SandboxError):
            variations(tmp_path / "v", _caller(tmp_path), kind)
        assert (tmp_path / "v").exists()
