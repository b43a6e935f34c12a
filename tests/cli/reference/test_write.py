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
from cuwheel.model.catalogue import load_catalogue
from cuwheel.model.nox_sessions import VERBS
from cuwheel.paths import ROOT
from cuwheel.pipeline import STAGES

if TYPE_CHECKING:
    from pathlib import Path

MADE = documents()  # takes a second
PAGES = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
FLAGS = [flag for action in parser_of("build").described for flag in action.option_strings]
DECLARATIONS = [
    kind
    for kind in vars(recipe).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
]


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


def test_every_error_has_an_entry_that_says_more_than_its_summary() -> None:
    text = MADE["TROUBLESHOOTING.md"]

    lost = [kind for kind in error_classes() if not says_more(entry_of(kind, text))]

    assert lost == []


def entry_of(kind: type[CuwheelError], text: str) -> str:
    """What stands below the heading of an error, up to the next."""
    found = re.search(rf'^<a id="{kind.anchor}"></a>\n\n#### \w', text, re.MULTILINE)
    return re.split(r"<a id=|\n## ", text[found.end() :])[0] if found else ""


def says_more(entry: str) -> bool:
    return "\n\n" in entry.partition("Exit code ")[2].strip()


def test_recipe_reference_tells_every_field() -> None:
    text = MADE["docs/reference/recipe.md"]

    lost = [
        (kind.__name__, field.name)
        for kind in DECLARATIONS
        for field in dataclasses.fields(kind)
        if f"\n| `{field.name}` |" not in section_of(kind.__name__, text)
    ]

    assert lost == []


def section_of(name: str, text: str) -> str:
    return text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def test_readme_names_what_was_built() -> None:
    first = re.search(r"^\| recipe .*\n(?:\|.*\n)+", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert first is not None

    rows = [line[1:-1].split("|") for line in first[0].splitlines()[2:]]
    named = {
        re.split(r"[\],\s]", name.strip().strip("["))[0]: [
            re.findall(r"\d+\.\d+", cell) for cell in cells[:2]
        ]
        for name, *cells in rows
    }

    assert named == {
        recipe.name: [
            [one for one in recipe.toolkits if one not in recipe.never_built],
            [*recipe.never_built],
        ]
        for entry in load_catalogue([ROOT])
        if (recipe := entry.recipe)
    }


def test_readme_claims_no_python_or_gpu_for_what_was_never_built() -> None:
    rows = re.findall(
        r"^\| [^|]*\| \| [\d., ]+\|(.*)\|$", (ROOT / "README.md").read_text(), re.MULTILINE
    )

    assert rows
    assert {re.sub(r"[\s|]", "", row) for row in rows} == {""}


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def test_page_of_a_build_names_every_option() -> None:
    text = (ROOT / "docs" / "how-to" / "build.md").read_text()

    assert [flag for flag in FLAGS if f"`{flag}" not in text] == []


@pytest.mark.parametrize("page", ["docs/how-to/build.md", "docs/architecture.md"])
def test_page_names_every_stage(page: str) -> None:
    text = (ROOT / page).read_text()

    assert [stage for stage in STAGES if f"| `{stage}` |" not in text] == []


def test_links_of_pages_lead_to_files() -> None:
    links = [
        (page, name)
        for page in PAGES
        for name in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text())
    ]

    assert len(links) > len(PAGES)
    assert [(page, name) for page, name in links if not (page.parent / name).exists()] == []


def all_kinds(kind: type[CuwheelError]) -> list[type[CuwheelError]]:
    """Every subclass that cuwheel.errors defines."""
    below = [each for direct in kind.__subclasses__() for each in (direct, *all_kinds(direct))]
    return [each for each in below if each.__module__ == errors.__name__]


def test_options_of_each_session_stand_once() -> None:
    page = (ROOT / "docs" / "reference" / "options.md").read_text()
    titles = re.findall(r"^## `nox -s (\S+) --`$", page, re.MULTILINE)

    taking = [one.name for one in VERBS if parser_of(one.name).described]
    assert titles == ["build-<target>" if name == "build" else name for name in taking]
