"""Broken environments, with the cause of each as it was known before `diagnose` saw it."""

from __future__ import annotations

from tests.e2e.check.broken import native, python_files, versions

SITUATIONS = (*python_files.SITUATIONS, *native.SITUATIONS, *versions.SITUATIONS)
