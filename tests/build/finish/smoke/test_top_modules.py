"""The modules that an import of a distribution means."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.finish.smoke.top_modules import top_modules
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

    assert top_modules(site, name) == modules
