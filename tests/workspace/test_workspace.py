from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.summary import Summary
from cuwheel.errors import StageOrderError
from cuwheel.workspace import records
from tests.support.factories import make_workspace

_PATH = Path("/some/where")
SAVED = [
    records.Toolchain(home=_PATH, version="13.0.88", provider="pypi", fingerprint="f", pinned=True),
    records.Environment(
        python=_PATH, site_packages=_PATH, fingerprint="f", base_python=_PATH, base_version="3.11.7"
    ),
    records.SourceTree(
        path=_PATH, origin="o", sha256="s", epoch=1, pinned=False, patches=(("0001", "s"),)
    ),
    records.Preflight(
        host_compiler=_PATH,
        c_compiler=_PATH,
        host_compiler_version="g++",
        jobs=2,
    ),
    records.BuiltWheel(
        path=_PATH,
        log=_PATH,
        peak_memory=1,
        environment=(("CC", "gcc"), ("TZ", "UTC")),
        private_paths=("/a",),
        not_hermetic=(),
    ),
    records.RepairedWheel(
        path=_PATH,
        sha256="s",
        size=1,
        platform_tag="t",
        external=("libcudart.so.13",),
        requires=("a>=1",),
        tools=(("patchelf", "0.18"),),
    ),
    records.Audit(sha256="s", archs=("90",), ptx_archs=(), suppliers=(("file", "soname", "who"),)),
    records.SmokeResult(sha256="s", imported=("a",), libraries=(("soname", "file"),)),
    records.IndexedWheel(wheel=_PATH, provenance=_PATH, index=_PATH),
    Summary(
        wheel="w",
        size=1,
        sha256="s",
        archs=("90",),
        ptx_archs=(),
        platform_tag="t",
        external=(("soname", "who"),),
        durations=(("build", 1.5),),
        peak_memory=1,
    ),
]


@pytest.mark.parametrize("record", SAVED, ids=lambda record: type(record).__name__)
def test_gives_back_what_was_saved(tmp_path: Path, record: object) -> None:
    workspace = make_workspace(tmp_path)

    workspace.save("stage", record)

    assert workspace.load("stage", type(record)) == record


def test_refuses_stage_that_has_not_run(tmp_path: Path) -> None:
    with pytest.raises(StageOrderError) as caught:
        make_workspace(tmp_path).load("build", records.BuiltWheel)

    assert "has no output of the stage build" in caught.value.what


def test_knows_which_stages_have_run(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)

    workspace.save("audit", SAVED[6])

    assert (workspace.has("audit"), workspace.has("smoke")) == (True, False)


def test_makes_folders_when_asked(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)

    assert not workspace.work.exists()
    assert workspace.log("build").parent.is_dir()
