"""The reference pages, written from what the code says about itself: `nox -s docs`.

What a page says stands in one place, beside the code that does it; a test compares the pages on
disk with what this module makes. The text has to be the same under every Python, so nothing here
takes argparse's own help, whose form changes between releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.reference.addresses import addressed_pages
from cuwheel.cli.reference.index_check_page import index_check_page
from cuwheel.cli.reference.options_page import options_page
from cuwheel.cli.reference.recipe_page import recipe_page
from cuwheel.cli.reference.schemas import check_versions, schema_files, schemas_page
from cuwheel.cli.reference.toolkits_page import toolkits_page
from cuwheel.cli.reference.troubleshooting import troubleshooting
from cuwheel.paths import ROOT
from cuwheel.system.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path


def write_documents(root: Path) -> tuple[Path, ...]:
    """Write every generated page below `root`; gives back their paths.

    Raises:
        OSError: one can't be written.
        UsageError: what programs get has changed, and its version hasn't.
    """
    check_versions(root)
    made = documents()
    for name, text in made.items():
        write_atomically(root / name, text)
    return tuple(root / name for name in made)


def documents() -> dict[str, str]:
    """Every generated page: path relative to the repository, and text."""
    return {
        "TROUBLESHOOTING.md": troubleshooting(),
        "docs/reference/recipe.md": recipe_page(),
        "docs/reference/index-check.md": index_check_page(),
        "docs/reference/json.md": schemas_page(),
        "docs/reference/options.md": options_page(),
        "docs/reference/toolkits.md": toolkits_page(),
        **schema_files(),
        **addressed_pages(ROOT),
    }
