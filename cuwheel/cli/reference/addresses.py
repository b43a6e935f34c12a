"""Where cuwheel is kept and who answers for it. Neither is decided: both are placeholders.

Put the decided ones here and run `nox -s docs`, which writes them into every page that names one.
`.invalid` leads nowhere (RFC 2606), so that no page sends anybody to a stranger meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from pathlib import Path

UNDECIDED_REPOSITORY = "https://repository.invalid/cuwheel"
UNDECIDED_CONTACT = "maintainers@repository.invalid"
REPOSITORY = UNDECIDED_REPOSITORY
CONTACT = UNDECIDED_CONTACT

# All that name one.
PAGES = (
    ".github/ISSUE_TEMPLATE/config.yml",
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "README.md",
    "SECURITY.md",
    "docs/how-to/audit-in-ci.md",
    "docs/tutorials/offline-cluster.md",
)


def addressed_pages(root: Path) -> dict[str, str]:
    """The pages with the decided addresses in them, by their paths below `root`.

    Raises:
        OSError: one can't be read.
    """
    return {name: with_addresses(read_text(root / name)) for name in PAGES}


def with_addresses(text: str) -> str:
    """A text with the decided addresses instead of the placeholders."""
    return text.replace(UNDECIDED_REPOSITORY, REPOSITORY).replace(UNDECIDED_CONTACT, CONTACT)
