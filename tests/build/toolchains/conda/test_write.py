"""conda-lock writes the locks, in an environment of its own."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError, LockError
from cuwheel.build.toolchains.conda.lock_file import read_conda_lock
from cuwheel.build.toolchains.conda.write import write_conda_lock
from tests.support.toolchains.channel import write_source
from tests.support.toolchains.conda_locks import (
    CHANNEL,
    SHIPPED,
    make_lock,
    read_with_conda_lock,
    toy,
)

COMMAND = "nox -s lock -- toolchain:130:conda"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "cuda130", "toy ==1.0")


@pytest.mark.e2e
def test_is_read_as_it_was_written(source: Path, conda_lock: Path, tmp_path: Path) -> None:
    """One package has an MD5 only, one a SHA-256 and no size."""
    path = source.with_name("conda-lock.yml")
    url = f"{CHANNEL}/noarch/z-1.0-h123_0.tar.bz2"
    packages = (toy(sha256=""), toy(name="z", url=url, md5="", size=0))
    lock = dataclasses.replace(make_lock(source), packages=packages)

    write_conda_lock(path, lock, command=COMMAND, python=conda_lock, source=source)

    read = read_conda_lock(path)
    theirs = read_with_conda_lock(conda_lock, tmp_path, sources=[source])[str(source)]
    assert read == dataclasses.replace(lock, digest=theirs["digest"])
    assert path.read_text().startswith(f"# Written by `{COMMAND}`; don't edit.\nversion: 1\n")


@pytest.mark.e2e
def test_same_lock_is_the_same_bytes(tmp_path: Path, conda_lock: Path) -> None:
    """Whichever release of conda-lock is locked: nothing in a shipped lock moves by itself."""
    shipped = next(path for path in SHIPPED if path.parent.name == "cuda130")

    path = tmp_path / "conda-lock.yml"
    write_conda_lock(path, read_conda_lock(shipped), command=COMMAND, python=conda_lock)

    assert path.read_bytes() == shipped.read_bytes()


@pytest.mark.e2e
def test_names_what_conda_lock_refuses(source: Path, conda_lock: Path) -> None:
    lock = make_lock(source)
    source.write_text("channels: 7\n")

    with pytest.raises(LockError, match=r"cuda130/conda-lock\.yml could not be written") as caught:
        write_conda_lock(
            source.with_name("conda-lock.yml"),
            lock,
            command=COMMAND,
            python=conda_lock,
            source=source,
        )

    assert caught.value.why.startswith("conda-lock says: ")


def test_names_environment_without_conda_lock(source: Path) -> None:
    with pytest.raises(InstallError) as caught:
        write_conda_lock(
            source.with_name("conda-lock.yml"),
            make_lock(source),
            command=COMMAND,
            python=Path(sys.executable),
        )

    assert "No module named 'conda_lock'" in caught.value.why
