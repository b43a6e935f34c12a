"""The consistency of the failure catalogue: each sample has the cause of its entry."""

from __future__ import annotations

import io
from collections import Counter

import pytest
import yaml

from cuwheel.base.errors import EXIT_CODES
from cuwheel.base.paths import ROOT
from cuwheel.check.audit.findings import RULES
from cuwheel.check.cuda.toolkits import GONE_HEADERS
from cuwheel.check.explain.catalogue import FailureCause, Weight, causes, groups, signs
from cuwheel.check.explain.explanation import Explainer
from cuwheel.check.explain.log_text import blocks, undecorated
from tests.e2e.check.explained import NOT_MADE, TRIALS
from tests.logs.decisive import RAW

FAILURES = ROOT / "cuwheel" / "check" / "explain" / "failures"
STAGES = {
    *("configure", "compile", "device-link", "link", "package"),
    *("repair", "install", "import", "runtime"),
}


def known_causes() -> tuple[FailureCause, ...]:
    return tuple(causes().values())


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer()


def slugs_of(log: str, explainer: Explainer) -> list[str]:
    return [cause.slug for cause in explainer.explain(io.BytesIO(log.encode())).causes]


def test_samples_have_their_cause(explainer: Explainer) -> None:
    wrong = {
        (cause.slug, example): slugs
        for cause in known_causes()
        for example in cause.examples
        if (slugs := slugs_of(example, explainer))[:1] != [cause.slug]
    }

    assert all(cause.examples for cause in known_causes())
    assert wrong == {}


@pytest.mark.parametrize("header", sorted(GONE_HEADERS))
def test_knows_the_headers_that_audit_finds(header: str, explainer: Explainer) -> None:
    log = f"a.cu:1:10: fatal error: {header}: No such file or directory"

    assert "cuda12-texture-ref-removed" in slugs_of(log, explainer)


def test_each_pattern_has_a_sample() -> None:
    unmet = [
        (cause.slug, pattern.regex.pattern)
        for cause in known_causes()
        for lines in [[window for example in cause.examples for window in windows(example)]]
        for pattern in cause.patterns
        if not any(pattern.regex.search(window) for window in lines)
    ]

    assert unmet == []


def test_every_match_holds_required_texts() -> None:
    matches = [
        (pattern, match[0].lower())
        for cause in known_causes()
        for example in cause.examples
        for window in windows(example)
        for pattern in cause.patterns
        for match in pattern.regex.finditer(window)
    ]

    unmet = [
        (match, texts)
        for pattern, match in matches
        for texts in (pattern.texts, *pattern.others)
        if not any(text in match for text in texts)
    ]

    assert len(matches) >= len(known_causes())
    assert unmet == []


@pytest.mark.e2e
def test_searches_for_texts_that_are_rare_in_healthy_logs() -> None:
    """Each line with such a text is matched with patterns, which is slow for many lines."""
    log = (RAW / "ok--ninja-long.log").read_text(errors="replace")
    healthy = log.lower().splitlines()  # as they are searched

    common = [
        (cause.slug, pattern.texts)
        for cause in known_causes()
        for pattern in cause.patterns
        if sum(any(text in line for text in pattern.texts) for line in healthy) > len(healthy) / 20
    ]

    assert common == []


def windows(log: str) -> list[str]:
    text = b"".join(
        block.text[: block.fresh] for block in blocks(io.BytesIO(log.encode()))
    ).decode()
    lines = [undecorated(line) for line in text.splitlines()]
    return ["\n".join(lines[start : start + 3]) for start in range(len(lines))]


def test_decides_only_by_measured_precision() -> None:
    counts = yaml.safe_load((FAILURES / "precision.yaml").read_text())

    decisive = {cause.slug for cause in known_causes() if cause.limit is Weight.DECISIVE}

    assert decisive
    assert all(counts[slug][0] >= 0.97 * sum(counts[slug]) for slug in decisive)
    assert "python-dep-incompatible" not in decisive


def test_has_all_texts() -> None:
    silent = [
        cause.slug
        for cause in known_causes()
        if not (cause.why and cause.fix and cause.confirm and cause.links)
        or any("{" in ways[-1].replace("{{", "") for ways in (cause.why, cause.fix))
    ]

    assert silent == []


def test_has_a_known_stage() -> None:
    assert {cause.stage for cause in known_causes()} == STAGES


def test_names_known_causes() -> None:
    named = {cause.slug: {*cause.brings, *cause.akin} for cause in known_causes()}

    assert set().union(*named.values()) <= set(causes())
    assert [slug for slug, others in named.items() if slug in others] == []


def test_is_akin_both_ways() -> None:
    known = causes()

    one_sided = [
        (slug, other)
        for slug, cause in known.items()
        for other in cause.akin
        if slug not in known[other].akin
    ]

    assert one_sided == []


def test_no_causes_bring_each_other() -> None:
    known = causes()

    both = [(a, b) for a, cause in known.items() for b in cause.brings if a in known[b].brings]

    assert not both


def test_needs_are_known() -> None:
    named = set(signs().named)
    needs = {
        need for cause in known_causes() for pattern in cause.patterns for need in pattern.needs
    }

    unknown = {need for need in needs if need.removeprefix("not ") not in named and " " not in need}

    assert not unknown


def test_anchors_are_unique() -> None:
    anchors = [cause.slug for group in groups() for cause in group.causes]
    anchors += [*EXIT_CODES, *(rule.anchor for rule in RULES)]

    assert [name for name, times in Counter(anchors).items() if times > 1] == []


def test_every_sign_is_needed() -> None:
    needs = {
        need.removeprefix("not ")
        for cause in known_causes()
        for p in cause.patterns
        for need in p.needs
    }

    assert set(signs().named) <= needs


def test_each_cause_is_made_or_has_a_reason() -> None:
    made = {trial.cause for trial in TRIALS}

    assert sorted([*made, *NOT_MADE]) == sorted(cause.slug for cause in known_causes())
