"""The failure catalogue holds together: each sample is explained by its own entry."""

from __future__ import annotations

import io
from collections import Counter

import pytest

from cuwheel.audit.findings import RULES
from cuwheel.cli.reference.troubleshooting import error_classes
from cuwheel.diagnose.verdict import KNOWN
from cuwheel.explain.catalogue import FailureCause, causes, groups, signs
from cuwheel.explain.explanation import Explainer
from cuwheel.explain.log_text import blocks, undecorated
from tests.logs.reproduce import RAW

CAUSES = tuple(causes().values())
STAGES = {
    *("configure", "compile", "device-link", "link", "package"),
    *("repair", "install", "import", "runtime"),
}


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer()


def slugs_of(log: str, explainer: Explainer) -> list[str]:
    return [one.cause.slug for one in explainer.explain(io.BytesIO(log.encode())).causes]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.slug)
def test_samples_have_this_cause(cause: FailureCause, explainer: Explainer) -> None:
    wrong = [one for one in cause.examples if slugs_of(one, explainer)[:1] != [cause.slug]]

    assert cause.examples
    assert not wrong


def test_each_pattern_has_a_sample() -> None:
    unmet = [
        (cause.slug, one.regex.pattern)
        for cause in CAUSES
        for lines in [[window for example in cause.examples for window in windows(example)]]
        for one in cause.patterns
        if not any(one.regex.search(window) for window in lines)
    ]

    assert unmet == []


def test_every_match_holds_required_texts() -> None:
    matches = [
        (one, match[0].lower())
        for cause in CAUSES
        for example in cause.examples
        for window in windows(example)
        for one in cause.patterns
        for match in one.regex.finditer(window)
    ]

    unmet = [
        (match, texts)
        for one, match in matches
        for texts in (one.texts, *one.others)
        if not any(text in match for text in texts)
    ]

    assert len(matches) >= len(CAUSES)
    assert unmet == []


def test_looks_for_what_healthy_logs_seldom_hold() -> None:
    """Each line with such a text costs a closer look, and with many of them the log is slow."""
    log = (RAW / "ok--ninja-long.log").read_text(errors="replace")
    healthy = log.lower().splitlines()  # as they are searched

    common = [
        (cause.slug, one.texts)
        for cause in CAUSES
        for one in cause.patterns
        if sum(any(text in line for text in one.texts) for line in healthy) > len(healthy) / 20
    ]

    assert common == []


def windows(log: str) -> list[str]:
    text = b"".join(one.text[: one.fresh] for one in blocks(io.BytesIO(log.encode()))).decode()
    lines = [undecorated(line) for line in text.splitlines()]
    return ["\n".join(lines[start : start + 3]) for start in range(len(lines))]


def test_always_has_something_to_say() -> None:
    silent = [
        cause.slug
        for cause in CAUSES
        if not (cause.why and cause.fix and cause.confirm and cause.links)
        or any("{" in ways[-1].replace("{{", "") for ways in (cause.why, cause.fix))
    ]

    assert silent == []


def test_happens_in_a_known_stage() -> None:
    assert {cause.stage for cause in CAUSES} == STAGES


def test_names_known_causes() -> None:
    named = {cause.slug: {*cause.brings, *cause.akin} for cause in CAUSES}

    assert set().union(*named.values()) <= set(causes())
    assert [slug for slug, others in named.items() if slug in others] == []


def test_is_akin_both_ways() -> None:
    known = causes()

    one_sided = [
        (slug, other)
        for slug, one in known.items()
        for other in one.akin
        if slug not in known[other].akin
    ]

    assert one_sided == []


def test_no_two_bring_each_other() -> None:
    known = causes()

    both = [(a, b) for a, one in known.items() for b in one.brings if a in known[b].brings]

    assert not both


def test_needs_are_known() -> None:
    named = set(signs().named)
    needs = {need for cause in CAUSES for one in cause.patterns for need in one.needs}

    unknown = {one for one in needs if one.removeprefix("not ") not in named and " " not in one}

    assert not unknown


def test_anchors_are_unique() -> None:
    anchors = [one.slug for group in groups() for one in group.causes]
    anchors += [kind.anchor for kind in error_classes()] + [rule.anchor for rule in RULES]

    assert [name for name, times in Counter(anchors).items() if times > 1] == []


def test_every_sign_is_needed() -> None:
    needs = {
        need.removeprefix("not ") for cause in CAUSES for p in cause.patterns for need in p.needs
    }

    assert set(signs().named) <= needs


def test_knows_what_diagnose_leads_to() -> None:
    assert set(KNOWN) <= set(causes()) | {kind.anchor for kind in error_classes()}
