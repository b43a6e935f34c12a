"""Small conda locks, and what conda-lock itself reads in a file."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.build.toolchains.conda.environment_file import read_source
from cuwheel.build.toolchains.conda.lock_file import CondaLock, CondaPackage

CHANNEL = "https://conda.anaconda.org/conda-forge"
SHIPPED = sorted((ROOT / "envs").glob("*/conda-lock.yml"))
SOURCES = sorted((ROOT / "envs").glob("*/environment.yml"))

_TOY = CondaPackage(
    name="toy",
    version="1.0",
    build="h123_0",
    url=f"{CHANNEL}/linux-64/toy-1.0-h123_0.conda",
    sha256="a" * 64,
    md5="b" * 32,
    size=1234,
    depends=(("__glibc", ">=2.17,<3.0.a0"), ("toy-data", "")),
)


def toy(**changes: Any) -> CondaPackage:
    return dataclasses.replace(_TOY, **changes)


def toy_data() -> CondaPackage:
    url = f"{CHANNEL}/noarch/toy-data-1.0-0.conda"
    return toy(name="toy-data", build="0", url=url, depends=())


def make_lock(source: Path) -> CondaLock:
    """Return a lock that fits a source."""
    required = read_source(source)
    return CondaLock(
        packages=(toy(), toy_data()),
        channels=required.channels,
        digest="d" * 64,
        input_digest=required.input_digest,
        index="where the records came from",
    )


def read_with_conda_lock(
    python: Path, folder: Path, *, locks: Iterable[Path] = (), sources: Iterable[Path] = ()
) -> dict[str, Any]:
    """Return what conda-lock reads, by the files' paths: `conda_lock_reader`."""
    request, answer = folder / "request.json", folder / "answer.json"
    content = {"locks": [*map(str, locks)], "sources": [*map(str, sources)]}
    request.write_text(json.dumps(content))
    reader = ROOT / "tests" / "support" / "toolchains" / "conda_lock_reader.py"
    options = ("-I", "-W", "ignore", reader, request, answer)
    process.run([python, *options], env={"PATH": os.defpath, "HOME": str(folder)}, cwd=folder)
    output: dict[str, Any] = json.loads(answer.read_text())
    return output
