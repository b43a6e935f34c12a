from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import pytest

from cuwheel import errors
from cuwheel.cli.dispatch import parser_of
from cuwheel.cli.reference.troubleshooting import error_classes
from cuwheel.cli.reference.write import documents, write_documents
from cuwheel.errors import CuwheelError
from cuwheel.model import recipe
from cuwheel.paths import ROOT
from cuwheel.pipeline import STAGES

if TYPE_CHECKING:
    from pathlib import Path

MADE = documents()  # takes a second
PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
)
FLAGS = [flag for action in parser_of("build").described for flag in action.option_strings]
DECLARATIONS = [kind for kind in vars(recipe).values() if dataclasses.is_dataclass(kind)]


@pytest.mark.parametrize("name", sorted(MADE))
def test_page_on_disk_is_what_the_code_says(name: str) -> None:
    written = (ROOT / name).read_text()

    assert written == MADE[name], "run `nox -s docs`"


def test_writes_every_page(tmp_path: Path) -> None:
    written = write_documents(tmp_path)

    assert {path.relative_to(tmp_path).as_posix() for path in written} == set(MADE)
    assert all(path.stat().st_size for path in written)


def test_every_error_has_an_anchor_of_its_own() -> None:
    kinds = all_kinds(CuwheelError)

    anchors = [kind.__dict__.get("anchor") for kind in kinds]

    assert all(anchors)
    assert len(set(anchors)) == len(anchors)


def test_every_error_has_an_exit_code_of_its_own() -> None:
    kinds = all_kinds(CuwheelError)

    codes = [kind.__dict__.get("exit_code") for kind in kinds]

    assert len(set(codes)) == len(codes)
    # 0 and 1 are Python's own; from 125 on shells give them a meaning.
    assert all(code is not None and 2 <= code < 125 for code in codes)


def test_every_error_is_in_the_catalogue() -> None:
    assert set(error_classes()) == set(all_kinds(CuwheelError))


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_anchor_leads_to_a_heading(kind: type[CuwheelError]) -> None:
    text = MADE["TROUBLESHOOTING.md"]

    assert re.search(rf'^<a id="{kind.anchor}"></a>\n\n#### \w', text, re.MULTILINE)


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_entry_says_more_than_its_summary(kind: type[CuwheelError]) -> None:
    text = MADE["TROUBLESHOOTING.md"].partition(f'<a id="{kind.anchor}">')[2]

    entry = text.partition("<a id=")[0].partition("Exit code ")[2]

    assert "\n\n" in entry.partition("\n## ")[0].strip()


@pytest.mark.parametrize("kind", DECLARATIONS, ids=lambda kind: kind.__name__)
def test_recipe_reference_tells_every_field(kind: type) -> None:
    text = MADE["docs/reference/recipe.md"].partition(f"\n## {kind.__name__}\n")[2]

    section = text.partition("\n## ")[0]

    assert all(f"\n| `{field.name}` |" in section for field in dataclasses.fields(kind))


@pytest.mark.parametrize("flag", FLAGS)
def test_readme_tells_every_option_of_a_build(flag: str) -> None:
    assert f"`{flag}" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md"])
def test_page_tells_every_stage(page: str, stage: str) -> None:
    assert f"| `{stage}` |" in (ROOT / page).read_text()


@pytest.mark.parametrize("page", PAGES)
def test_links_of_page_lead_to_files(page: str) -> None:
    text = (ROOT / page).read_text()

    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text)

    lost = [name for name in targets if not (ROOT / page).parent.joinpath(name).exists()]
    assert lost == []


@pytest.mark.parametrize("page", PAGES)
def test_page_holds_no_placeholder(page: str) -> None:
    assert "TODO" not in (ROOT / page).read_text()


def all_kinds(kind: type[CuwheelError]) -> list[type[CuwheelError]]:
    """Every subclass that cuwheel.errors defines."""
    below = [each for direct in kind.__subclasses__() for each in (direct, *all_kinds(direct))]
    return [each for each in below if each.__module__ == errors.__name__]
