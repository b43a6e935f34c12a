"""Writes docs/explain-examples.md: the explanations of two of the logs.

python -m tests.logs.examples
"""

from __future__ import annotations

from cuwheel.base.paths import ROOT
from cuwheel.check.explain.explain import explanation_as_text
from cuwheel.check.explain.explanation import Explainer
from tests.logs.decisive import RAW

PAGE = ROOT / "docs" / "explain-examples.md"
_NAMES = (
    "cuda13-cccl-api-removed--ninja-long",
    "cuda-home-not-set--pip",
)
_INTRO = """\
# Two logs explained

<!-- Written by `python -m tests.logs.examples` from tests/logs/raw/; don't edit. -->

What `nox -s explain` says of logs that the real tools wrote when something was made wrong on
purpose; [tests/logs](../tests/logs/README.md) has all of them, and how they were made."""


def page() -> str:
    """Return the page."""
    explainer = Explainer()
    parts = [_INTRO]
    for name in _NAMES:
        with (RAW / f"{name}.log").open("rb") as stream:
            text = explanation_as_text(explainer.explain(stream), f"{name}.log")
        parts.append(f"```\n{text}\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
