from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cross.library_folders import library_folders
from cuwheel.model.platform import AARCH64
from tests.support.foreign import write_root

if TYPE_CHECKING:
    from pathlib import Path


def test_names_what_the_root_names_and_nothing_of_this_machine(tmp_path: Path) -> None:
    root = write_root(tmp_path, "/opt/vendor/lib", "/usr/lib/aarch64-linux-gnu")

    found = library_folders(root, AARCH64)

    own = [path for path in found if path.parts[-2:] != ("aarch64-linux-gnu", "lib")]
    assert own == [
        tmp_path / "opt/vendor/lib",
        tmp_path / "usr/lib/aarch64-linux-gnu",
        tmp_path / "usr/lib",
    ]


def test_follows_includes_within_the_root(tmp_path: Path) -> None:
    root = write_root(tmp_path, "/one")
    (tmp_path / "two").mkdir()
    (tmp_path / "etc/ld.so.conf.d").mkdir()
    (tmp_path / "etc/ld.so.conf.d/two.conf").write_text("/two\n")
    (tmp_path / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n/one\n")

    assert library_folders(root, AARCH64)[:2] == (tmp_path / "two", tmp_path / "one")
