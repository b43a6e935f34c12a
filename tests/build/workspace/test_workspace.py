from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.system.folders.output_folder import MARKER
from cuwheel.build.pipeline.summary import Summary
from cuwheel.build.workspace import records
from cuwheel.build.workspace.workspace import WORK_NAMES
from tests.support.engine import Engine
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
def test_loads_what_was_saved(tmp_path: Path, record: object) -> None:
    workspace = make_workspace(tmp_path)

    workspace.save("stage", record)

    assert workspace.load("stage", type(record)) == record


def test_refuses_stage_that_has_not_run(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    workspace.save("audit", SAVED[6])

    with pytest.raises(UsageError) as caught:
        workspace.load("build", records.BuiltWheel)

    assert "has no output of the stage build" in caught.value.what
    assert (workspace.has("audit"), workspace.has("build")) == (True, False)


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["tiny-capi", "tiny-skbuild"])
def test_next_build_removes_all_that_a_build_leaves(
    built: Callable[[str], Engine], name: str
) -> None:
    engine = built(name)

    [work] = (path for path in engine.work.iterdir() if path.is_dir())

    assert {path.name for path in work.iterdir()} - {MARKER} <= WORK_NAMES


@pytest.mark.parametrize("content", ["ssh-ed25519 AAAA", ""])
def test_refuses_folder_with_a_key_of_a_user(content: str, tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    source = workspace.work / "source" / "main.py"
    source.parent.mkdir(parents=True)
    source.touch()
    (workspace.work / "key").write_text(content)

    with pytest.raises(UsageError):
        workspace.clear()

    assert source.exists()
