"""Archs of one GPU and of a family: built by a real nvcc, audited, said."""

from __future__ import annotations

import json

import pytest

from cuwheel.base.formats.binaries.archs import DeviceCode, runs_on
from tests.support.engine import Engine

pytestmark = pytest.mark.e2e

ARCHS = ("90a", "100f", "120a")
ASKED = tuple(word for arch in ARCHS for word in ("--arch", arch))


@pytest.mark.parametrize("name", ["tiny-capi", "tiny-skbuild"])
def test_builds_for_archs_of_one_gpu_and_of_a_family(engine: Engine, name: str) -> None:
    done = engine.build(name, *ASKED, "--keep-work")

    assert done.status == 0, done.output
    assert "sm_90a sm_100f sm_120a" in done.output
    [record] = engine.work.glob("*/stages/audit.json")
    code = DeviceCode(sass=tuple(json.loads(record.read_text())["archs"]))
    assert [gpu for gpu in ("90", "100", "103", "120", "121") if runs_on(code, gpu)] == [
        *("90", "100", "103", "120")
    ]
