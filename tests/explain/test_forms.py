"""Messages that no log on record holds, of forms that the catalogue knows."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from cuwheel.explain.catalogue import Weight
from cuwheel.explain.explanation import Explainer
from tests.support.explained import explain

FORMS = yaml.safe_load(Path(__file__).with_name("forms.yaml").read_text())


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer()


@pytest.mark.parametrize("slug", sorted(FORMS))
def test_knows_forms(slug: str, explainer: Explainer) -> None:
    told = {log: explain(explainer, log).causes for log in FORMS[slug]}

    wrong = {
        log: [one.cause.slug for one in causes]
        for log, causes in told.items()
        if not causes or causes[0].cause.slug != slug or causes[0].weight is Weight.PERHAPS
    }

    assert wrong == {}
