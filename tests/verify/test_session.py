"""How a verification ends; the builds are in tests/e2e/test_verify.py."""

from __future__ import annotations

import dataclasses

import pytest

from cuwheel.errors import NotReproducibleError
from cuwheel.verify.session import Verified, raise_if_unequal

NOTHING = Verified(builds=(), unequal=(), causes=())


def test_ends_in_an_error_where_bytes_differ() -> None:
    raise_if_unequal(NOTHING, "x")
    found = dataclasses.replace(NOTHING, unequal=("other",), causes=("a cause",))

    with pytest.raises(NotReproducibleError) as caught:
        raise_if_unequal(found, "x")

    assert "other gave another wheel" in caught.value.what
    assert caught.value.why == "a cause"
