"""Prepares the failure catalogue for a wheel: its YAML would take a second at each start."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PrepareCatalogue(BuildHookInterface[Any]):
    """Adds `cuwheel/check/explain/failures.json`, from `failures/*.yaml` beside it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Called before the wheel's files are gathered."""
        sys.path.insert(0, self.root)
        from cuwheel.check.explain.catalogue import prepared  # noqa: PLC0415 - of this very source

        self._folder = tempfile.TemporaryDirectory()
        made = Path(self._folder.name, "failures.json")
        made.write_text(prepared(), encoding="utf-8")
        build_data["force_include"][str(made)] = "cuwheel/check/explain/failures.json"

    def finalize(self, *_: object) -> None:
        """Called when the wheel is there."""
        self._folder.cleanup()
