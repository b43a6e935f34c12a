from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from cuwheel import limits
from cuwheel.conda.yaml_file import read_yaml
from tests.support.bombs import IMPORTS, peak_of

if TYPE_CHECKING:
    from pathlib import Path

_READ = """
from cuwheel.conda.yaml_file import read_yaml
try:
    read_yaml(Path(sys.argv[1]))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("bracket", ["[", "{a: ", "- "])
def test_brackets_without_end_are_an_error(tmp_path: Path, bracket: str) -> None:
    path = tmp_path / "conda-lock.yml"
    path.write_text(bracket * 200_000)

    said, memory = peak_of(_READ, path)

    assert f"YAMLError it nests more than {limits.NESTED} levels deep" in said
    assert memory < IMPORTS


def test_reads_what_nests_less(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text("[" * limits.NESTED + "]" * limits.NESTED)

    assert read_yaml(path) == yaml.load(path.read_bytes(), yaml.CSafeLoader)
