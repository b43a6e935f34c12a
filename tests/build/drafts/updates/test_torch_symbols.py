"""The table of what PyTorch exports, made from an index with wheels of gcc's libraries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError
from cuwheel.base.system.console import Console
from cuwheel.build.drafts.updates.torch_symbols import update_torch_symbols
from cuwheel.check.cuda.torch_exports import LIBRARIES, is_kept, pack, torch_exports, unpack
from tests.support.build.drafts import Index
from tests.support.factories import compile_library, write_wheel


def offer(index: Index, release: str, name: str) -> None:
    """Put a torch on the index, each library of which defines another name."""
    folder = index.folder / "torch"
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, bytes | Path] = {}
    for number, library in enumerate(LIBRARIES):
        source = folder / "code.c"
        source.write_text(f"void {name}{number}(void) {{}}\nvoid _ZN2at6native1xEv(void) {{}}\n")
        files[f"torch/lib/{library}"] = compile_library(folder / library, "gcc", "-fPIC", source)
    tag = "cp311-cp311-manylinux_2_28_x86_64"
    write_wheel(folder, files, name="torch", version=release, tag=tag)
    links = "".join(f'<a href="{path.name}">{path.name}</a>' for path in folder.glob("*.whl"))
    (folder / "index.html").write_text(links)


def test_adds_newest_of_each_minor_release(index: Index, tmp_path: Path) -> None:
    for release in ("2.1.0", "2.2.0", "2.2.1", "2.3.0rc1", "1.13.1"):
        offer(index, release, f"r{release.replace('.', '_')}_")
    table = tmp_path / "table"
    table.write_bytes(pack({"2.1.2": {"old"}}))

    update_torch_symbols((), Console(), Caller(os.environ), table=table)

    exports = unpack(table.read_bytes())
    assert exports.releases == ("2.1.2", "2.2.1")
    assert exports.names == ("old", *(f"r2_2_1_{number}" for number in range(len(LIBRARIES))))
    assert exports.releases_with("old") == ("2.1.2",)


def test_puts_release_in_place_of_its_older_patch(index: Index, tmp_path: Path) -> None:
    offer(index, "2.1.3", "new")
    table = tmp_path / "table"
    table.write_bytes(pack({"2.1.2": {"old"}, "2.2.0": {"other"}}))

    update_torch_symbols(("2.1.3",), Console(), Caller(os.environ), table=table)

    assert unpack(table.read_bytes()).releases == ("2.1.3", "2.2.0")


def test_refuses_release_without_wheel(index: Index, tmp_path: Path) -> None:
    offer(index, "2.1.0", "name")
    table = tmp_path / "table"
    table.write_bytes(pack({"2.0.1": {"old"}}))

    with pytest.raises(UsageError) as caught:
        update_torch_symbols(("9.9",), Console(), Caller(os.environ), table=table)

    assert "2.1.0" in caught.value.why


def test_kept_table_is_as_it_is_written() -> None:
    table = torch_exports()

    assert list(table.names) == sorted(filter(is_kept, set(table.names)))
    assert len(table.masks) == len(table.names)
    assert all(0 < mask < 1 << len(table.releases) for mask in table.masks)
