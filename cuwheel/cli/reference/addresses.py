"""Addresses of cuwheel's repository and contact: both are placeholders until they are decided.

Put the decided ones here and run `nox -s docs`, which writes them into every page that names one.
`.invalid` leads nowhere (RFC 2606).
"""

from __future__ import annotations

from pathlib import Path

from cuwheel.base.system.regular_files import read_text

UNDECIDED_REPOSITORY = "https://repository.invalid/cuwheel"
UNDECIDED_CONTACT = "maintainers@repository.invalid"
REPOSITORY = UNDECIDED_REPOSITORY
CONTACT = UNDECIDED_CONTACT

# Pages that name one.
PAGES = (
    ".github/ISSUE_TEMPLATE/config.yml",
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
    "docs/how-to/audit-in-ci.md",
    "docs/how-to/install-cuwheel.md",
    "docs/tutorials/first-wheel.md",
    "docs/tutorials/offline-cluster.md",
)


def addressed_pages(root: Path) -> dict[str, str]:
    """Return the pages with the decided addresses, by their paths below `root`."""
    return {name: with_addresses(read_text(root / name)) for name in PAGES}


def with_addresses(text: str) -> str:
    """Return a text with the decided addresses instead of the placeholders."""
    return text.replace(UNDECIDED_REPOSITORY, REPOSITORY).replace(UNDECIDED_CONTACT, CONTACT)
