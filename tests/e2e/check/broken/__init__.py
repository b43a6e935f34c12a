"""Broken environments, with the cause of each as it was known before `diagnose` saw it."""

from __future__ import annotations

from tests.e2e.check.broken import native, python_files, second, versions

FIRST = (*python_files.SITUATIONS, *native.SITUATIONS, *versions.SITUATIONS)
SITUATIONS = (*FIRST, *second.SITUATIONS)
