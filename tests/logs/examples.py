"""Writes docs/explain-examples.md: what `explain` says of ten of the logs.

python -m tests.logs.examples
"""

from __future__ import annotations

from cuwheel.explain.explanation import Explainer
from cuwheel.explain.report import explanation_as_text
from cuwheel.paths import ROOT
from tests.logs.reproduce import RAW

PAGE = ROOT / "docs" / "explain-examples.md"
_NAMES = (
    "cuda13-cccl-api-removed--ninja-long",
    "oom-killed-compile--cgroup",
    "arch-dropped-by-nvcc--cmake-make",
    "isolated-build-no-torch--uv",
    "malformed-cuda-home--pip",
    "missing-libcuda-link--pip",
    "rdc-device-link-missing--import",
    "auditwheel-symbols-too-recent--verbose-stamped",
    "glibcxx-too-old--import",
    "cxx11-abi-mismatch--import",
)
_INTRO = """\
# Ten logs explained

<!-- Written by `python -m tests.logs.examples` from tests/logs/raw/; don't edit. -->

What `nox -s explain` says of logs that the real tools wrote when something was made wrong on
purpose; [tests/logs](../tests/logs/README.md) has all of them, and how they were made."""


def page() -> str:
    """The page."""
    explainer = Explainer()
    parts = [_INTRO]
    for name in _NAMES:
        with (RAW / f"{name}.log").open("rb") as stream:
            told = explanation_as_text(explainer.explain(stream), f"{name}.log")
        parts.append(f"```\n{told}\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
