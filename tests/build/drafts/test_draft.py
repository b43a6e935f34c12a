from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cuwheel.base.system.process import run
from cuwheel.build.drafts.choices import draft_of
from cuwheel.build.drafts.draft import Call, Draft, render_draft
from cuwheel.build.drafts.readers.survey import survey_source
from cuwheel.build.drafts.upstream import Upstream
from cuwheel.build.recipe.catalogue import load_catalogue
from cuwheel.build.recipe.recipe_check import check_recipe
from tests.support.build.drafts import CMAKE_FILES, FILES, write_tree


@pytest.mark.parametrize("files", [FILES, CMAKE_FILES], ids=["torch", "cmake"])
def test_draft_is_a_recipe_in_the_form_of_the_others(files: dict[str, str], tmp_path: Path) -> None:
    survey = survey_source(write_tree(tmp_path / "source", files))
    upstream = Upstream(project="tiny-draft", version="1.0", sha256="0" * 64)
    path = tmp_path / "recipes" / "tiny_draft.py"
    path.parent.mkdir()
    path.write_text(render_draft(draft_of(upstream, survey, "someone", lambda _: None)))

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
    defines = dict.fromkeys(words, "ON")
    draft = Draft(name="x", summary='The "best"')
    draft.values["requires"] = words
    draft.values["build"] = Call(name="CMake", keywords={"define": defines})
    draft.find_out("requires", "word " * 30)
    draft.find_out("resources", "only a note")

    text = render_draft(draft)

    assert max(map(len, text.splitlines())) <= 100
    assert text.startswith('"""x: The \'best\'."""\n\nfrom cuwheel import CMake, Recipe\n')
    assert '    requires=(\n        "a-long-name-0",\n' in text
    assert "    # find out: only a note\n    # find out: word" in text
    assert "    build=CMake(\n        define={\n" in text
    assert "resources=" not in text
