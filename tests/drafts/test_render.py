from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.drafts.choices import draft_of
from cuwheel.drafts.draft import Call, Draft, Field, find_out
from cuwheel.drafts.readers.survey import survey_source
from cuwheel.drafts.render import render_draft
from cuwheel.drafts.upstream import Upstream
from cuwheel.model.catalogue import load_catalogue
from cuwheel.model.recipe_check import check_recipe
from cuwheel.system.process import run
from tests.support.drafted import CMAKE_FILES, FILES, write_tree

if TYPE_CHECKING:
    from pathlib import Path

import sys

import pytest


@pytest.mark.parametrize("files", [FILES, CMAKE_FILES], ids=["torch", "cmake"])
def test_draft_is_a_recipe_in_the_form_of_the_others(files: dict[str, str], tmp_path: Path) -> None:
    survey = survey_source(write_tree(tmp_path / "source", files))
    upstream = Upstream(project="tiny-draft", version="1.0", sha256="0" * 64)
    path = tmp_path / "recipes" / "tiny_draft.py"
    path.parent.mkdir()
    path.write_text(render_draft(draft_of(upstream, survey, "someone")))

    [entry] = load_catalogue([tmp_path])
    formatted = run(
        [sys.executable, "-m", "ruff", "format", "--line-length=100", "--diff", path],
        env={},
        check=False,
    )

    assert entry.recipe is not None, entry.fault
    assert formatted.status == 0, formatted.output
    if survey.metadata.license.value:
        check_recipe(entry.recipe)


def test_breaks_long_values_and_notes() -> None:
    words = tuple(f"a-long-name-{number}" for number in range(9))
    fields = (
        Field(name="requires", value=words, notes=(find_out("word " * 30),)),
        Field(name="patches", value=None, notes=(find_out("only a note"),)),
        Field(name="build", value=Call(name="CMake", given={"define": dict.fromkeys(words, "ON")})),
    )

    text = render_draft(Draft(name="x", summary='The "best"', fields=fields))

    assert max(map(len, text.splitlines())) <= 100
    assert text.startswith('"""x: The \'best\'."""\n\nfrom cuwheel import CMake, Recipe\n')
    assert '    requires=(\n        "a-long-name-0",\n' in text
    assert "    # find out: only a note\n    build=CMake(\n        define={\n" in text
    assert "patches=" not in text
