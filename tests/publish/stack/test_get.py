"""What a load proof imports of a distribution."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.publish.stack.get import _modules, _new_folder
from tests.support.publish.installations import plant, uv_environment


@pytest.mark.parametrize(
    ("name", "files", "modules"),
    [
        ("toy-attn", ("toy_attn/__init__.py", "other/__init__.py"), ("toy_attn",)),
        (
            "toy-attn",
            ("a/__init__.py", "b.py", "c.cpython-311-x86_64-linux-gnu.so"),
            ("a", "b", "c"),
        ),
        ("toy-core", ("cuda/toy/__init__.py", "cuda/toy/deep/__init__.py"), ("cuda.toy",)),
        ("toy-data", ("toy/data.bin", "_private.py"), ()),
    ],
)
def test_knows_what_to_import(
    name: str, files: tuple[str, ...], modules: tuple[str, ...], tmp_path: Path
) -> None:
    environment = uv_environment(tmp_path / "env")
    [site] = environment.glob("lib/python*/site-packages")
    plant(environment, name, dict.fromkeys(files, b""))

    assert _modules(site, name) == modules


def test_refuses_folder_of_another_run(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    with _new_folder(folder):
        (folder / "pyvenv.cfg").touch()
        with pytest.raises(UsageError, match="exists already"), _new_folder(folder):
            pass

    assert (folder / "pyvenv.cfg").exists()


def test_failure_removes_only_own_folder(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    with pytest.raises(KeyboardInterrupt), _new_folder(folder):
        raise KeyboardInterrupt
    assert not folder.exists()

    def replace_by_own() -> None:
        with _new_folder(folder):
            folder.rename(tmp_path / "moved")
            folder.mkdir()
            (folder / "thesis").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace_by_own()

    assert (folder / "thesis").exists()
