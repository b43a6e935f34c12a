"""How a verification ends; the builds are in tests/e2e/publish/test_verify.py."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cuwheel.base.errors import NotReproducibleError
from cuwheel.base.system.output.documents import as_line
from cuwheel.publish.rebuild.builds import BuiltAgain
from cuwheel.publish.rebuild.documents import rebuild_document
from cuwheel.publish.rebuild.published import PublishedWheel
from cuwheel.publish.rebuild.verify import (
    Verified,
    VerifiedAgainst,
    raise_if_other,
    raise_if_unequal,
)
from tests.support.documents import read_document
from tests.support.golden import Golden

NOTHING = Verified(builds=(), unequal=(), causes=())


def test_ends_in_an_error_where_bytes_differ(golden: Golden) -> None:
    raise_if_unequal(NOTHING, "x")
    result = dataclasses.replace(NOTHING, unequal=("other",), causes=("a cause",))

    with pytest.raises(NotReproducibleError) as caught:
        raise_if_unequal(result, "x")

    golden.check("verify/unequal.txt", str(caught.value))


@pytest.mark.parametrize(("sha256", "state"), [("a", "the same bytes"), ("b", "other bytes")])
def test_comparison_with_a_published_wheel_ends_as_its_data(
    sha256: str, state: str, tmp_path: Path, golden: Golden
) -> None:
    build = BuiltAgain(
        name="again", varied="", wheel=Path("x.whl"), sha256=sha256, seconds=1.0, cache=""
    )
    theirs = PublishedWheel(named=Path("y.whl"), sha256="a", wheel=None, statement={})
    result = VerifiedAgainst(theirs=theirs, build=build, causes=("a cause",))

    message = read_document(as_line(rebuild_document(result, "x-130", tmp_path)), "rebuild")

    assert (message["state"], message["against"]["file"]) == (state, "y.whl")
    if sha256 == "a":
        raise_if_other(result)
        return
    with pytest.raises(NotReproducibleError) as caught:
        raise_if_other(result)
    golden.check("verify/other.txt", str(caught.value))
