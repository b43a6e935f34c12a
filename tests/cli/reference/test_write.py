from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from cuwheel.base import errors
from cuwheel.base.errors import CuwheelError
from cuwheel.base.paths import ROOT
from cuwheel.build.recipe import recipe
from cuwheel.build.recipe.catalogue import load_catalogue
from cuwheel.build.recipe.nox_sessions import VERBS
from cuwheel.build.workspace.records import STAGES
from cuwheel.cli.dispatch import parser_of
from cuwheel.cli.reference.troubleshooting import entry_of, error_classes, error_entries
from cuwheel.cli.reference.write import documents, write_documents

PAGES = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
FLAGS = [flag for action in parser_of("build").described for flag in action.option_strings]
DECLARATIONS = [
    kind
    for kind in vars(recipe).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Every generated page by its path; a fixture, as each worker imports this module."""
    return documents()


def test_pages_on_disk_are_those_of_the_code(pages: dict[str, str]) -> None:
    different = [name for name in pages if (ROOT / name).read_text() != pages[name]]

    assert different == [], "run `nox -s docs`"


@pytest.mark.e2e
def test_writes_every_page(tmp_path: Path, pages: dict[str, str]) -> None:
    written = write_documents(tmp_path)

    assert {path.relative_to(tmp_path).as_posix() for path in written} == set(pages)
    assert all(path.stat().st_size for path in written)


def test_every_error_is_in_the_catalogue() -> None:
    assert set(error_classes()) == set(all_kinds(CuwheelError))


def test_every_error_has_an_entry_that_has_more_than_its_summary() -> None:
    assert [entry for entry in error_entries() if "\n\n" not in entry.text.strip()] == []


@pytest.mark.e2e
def test_every_name_on_the_page_has_an_entry(pages: dict[str, str]) -> None:
    names = re.findall(r'<a id="([\w-]+)"></a>`', pages["TROUBLESHOOTING.md"])

    assert len(names) > 200
    assert [name for name in names if not entry_of(f"TROUBLESHOOTING.md#{name}")] == []
    assert entry_of("no-such-entry") is None


def test_recipe_reference_has_every_field(pages: dict[str, str]) -> None:
    text = pages["docs/reference/recipe.md"]

    lost = [
        (kind.__name__, field.name)
        for kind in DECLARATIONS
        for field in dataclasses.fields(kind)
        if f"\n- `{field.name}` (" not in section_of(kind.__name__, text)
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
            [toolkit for toolkit in recipe.toolkits if toolkit not in recipe.never_built],
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
    """Every subclass that cuwheel.base.errors defines."""
    below = [each for direct in kind.__subclasses__() for each in (direct, *all_kinds(direct))]
    return [each for each in below if each.__module__ == errors.__name__]


def test_options_of_each_session_are_listed_once() -> None:
    page = (ROOT / "docs" / "reference" / "options.md").read_text()
    titles = re.findall(r"^## `nox -s (\S+) --`$", page, re.MULTILINE)

    taking = [one.name for one in VERBS if parser_of(one.name).described]
    assert titles == ["build-<target>" if name == "build" else name for name in taking]
