from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.compile_cache.folders import make_socket_folder, why_unusable


def test_says_why_a_folder_cant_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert why_unusable(tmp_path / "file" / "compiles") == "Not a directory"
    assert why_unusable(tmp_path / "compiles") == ""


@pytest.mark.parametrize(("temporary", "above"), [("/var/tmp", "/var/tmp"), ("d" * 100, "/tmp")])
def test_keeps_the_paths_of_sockets_short(
    temporary: str, above: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / temporary))

    with make_socket_folder(deep, is_sandboxed=False) as folder:
        assert len(str(folder / "sccache.sock")) < 108
        assert folder.parent == Path(above)
        assert folder.stat().st_mode & 0o777 == 0o700

    assert not folder.exists()


def test_replaces_what_stands_where_sockets_belong(tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere" / "file"
    kept.parent.mkdir()
    kept.touch()
    (tmp_path / "sockets").symlink_to(kept.parent)

    with make_socket_folder(tmp_path, is_sandboxed=True) as folder:
        assert list(folder.iterdir()) == []

    assert kept.exists()
