"""The content hash, and what is read of a line, are conda-lock's own: it says so itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cuwheel.conda.dependency import parse_dependency
from cuwheel.conda.environment_file import read_source
from tests.support.channel import SYSTEM, write_source
from tests.support.conda_locks import SOURCES, read_with_conda_lock

if TYPE_CHECKING:
    from pathlib import Path

LINES = (
    *("toy", "Toy ==1.0", "toy==1.0", "toy 1.0", "toy =1.0", "toy=1.0", "toy 1.0.*", "toy >=2,<3"),
    *("toy>=2|<1", "toy ==1.0 h1_0", "toy 1.0 h1_0", "toy =1.0 h1_0", "toy * *_cuda", "toy !=1.0"),
    *("toy ~=1.2", "nvidia::toy ==9.0", "_toy-x.y_z ==1!1.0+local"),
)
ARCHSPEC = {**SYSTEM, "__archspec": "1 x86_64"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Sources with one line each, and some that differ in the rest."""
    folder = tmp_path_factory.mktemp("sources")
    found = {line: write_source(folder / str(n), line) for n, line in enumerate(LINES)}
    found["several"] = write_source(folder / "several", "zlib ==1", "_a ==2", "B", "a")
    found["outside of the channels"] = write_source(
        folder / "channels", "toy", channels=("nodefaults", "https://a.invalid/b", "conda-forge")
    )
    found["system"] = write_source(folder / "system", "toy", system={"__glibc": "2.17"})
    found["archspec"] = write_source(folder / "archspec", "toy", system=ARCHSPEC)
    return found


@pytest.fixture(scope="module")
def theirs(
    made: dict[str, Path], conda_lock: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What conda-lock reads in them, and in those that cuwheel comes with."""
    folder = tmp_path_factory.mktemp("theirs")
    return read_with_conda_lock(conda_lock, folder, sources=[*made.values(), *SOURCES])


@pytest.mark.parametrize(
    "name", [*LINES, "several", "outside of the channels", "system", "archspec"]
)
def test_hash_is_that_of_conda_lock(
    name: str, made: dict[str, Path], theirs: dict[str, Any]
) -> None:
    assert read_source(made[name]).digest == theirs[str(made[name])]["digest"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.parent.name)
def test_hash_of_shipped_source_is_that_of_conda_lock(source: Path, theirs: dict[str, Any]) -> None:
    assert read_source(source).digest == theirs[str(source)]["digest"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.parent.name)
def test_shipped_source_asks_for_what_conda_lock_reads(
    source: Path, theirs: dict[str, Any]
) -> None:
    lines = yaml.safe_load(source.read_text())["dependencies"]
    ours = [parse_dependency(line) for line in lines]

    read = [[one.name, one.version, one.build, one.channel] for one in ours]
    assert read == theirs[str(source)]["dependencies"]
