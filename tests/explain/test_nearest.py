from __future__ import annotations

import pytest

from cuwheel.explain.catalogue import causes
from cuwheel.explain.nearest import Nearest


@pytest.fixture(scope="module")
def nearest() -> Nearest:
    return Nearest(causes())


def test_knows_a_cause_by_its_rare_words(nearest: Nearest) -> None:
    assert (
        nearest.cause(["the libcudnn_ops of cuDNN could not be dlopened"]) == "libcudnn-not-found"
    )


def test_says_nothing_where_no_cause_has_the_words(nearest: Nearest) -> None:
    assert nearest.cause(["the quick brown fox", "jumps"]) == ""


def test_says_nothing_of_nothing(nearest: Nearest) -> None:
    assert nearest.cause([]) == ""


def test_reads_the_beginning_of_a_long_line_only(nearest: Nearest) -> None:
    assert nearest.cause(["x" * 1000 + " libcudnn_ops cudnn"]) == ""


def test_names_nothing_without_causes() -> None:
    assert Nearest({}).cause(["libcudnn"]) == ""
