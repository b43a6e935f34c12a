"""What the runner of GitHub Actions makes of a log."""

from __future__ import annotations


def obeyed(log: str) -> list[str]:
    """The commands that it obeys, by its rules (actions/runner, ActionCommandManager.cs)."""
    found, token = [], ""
    for line in map(str.strip, log.splitlines()):
        if token:
            token = "" if line == f"::{token}::" else token
        elif line.startswith("::stop-commands::"):
            token = line.removeprefix("::stop-commands::")
        elif line.startswith("::") or "##[" in line:
            found.append(line)
    return found
