"""YAML that people write or others solved: no larger and no deeper than any lock.

libyaml's loader calls itself for each level, and a megabyte of brackets ends the process; its
events come one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from cuwheel import limits
from cuwheel.system.whole_files import read_bytes

if TYPE_CHECKING:
    from pathlib import Path


def read_yaml(path: Path) -> object:
    """What a YAML file holds.

    Raises:
        OSError: it can't be read, or is larger than any.
        yaml.YAMLError: it is no YAML, or nested too deep.
    """
    content = read_bytes(path, limit=limits.YAML)
    depth = 0
    for event in yaml.parse(content, yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > limits.NESTED:
            raise yaml.YAMLError(f"it nests more than {limits.NESTED} levels deep")
    return yaml.load(content, yaml.CSafeLoader)
