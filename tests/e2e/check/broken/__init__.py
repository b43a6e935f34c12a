"""Broken environments, with the cause of each as it was known before `diagnose` saw it."""

from __future__ import annotations

from tests.e2e.check.broken import native, python_files, second, third, versions

FIRST = (*python_files.SITUATIONS, *native.SITUATIONS, *versions.SITUATIONS)
SECOND, THIRD = second.SITUATIONS, third.SITUATIONS
SITUATIONS = (*FIRST, *SECOND, *THIRD)
