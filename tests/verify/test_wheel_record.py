"""What a verification leaves of exactly these bytes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cuwheel.verify.rebuilds import Rebuilt, Variation
from cuwheel.verify.session import Verified
from cuwheel.verify.wheel_record import read_verification, record_verified
from tests.support.documents import read_document

SHA256 = "ab" * 32


def build(name: str) -> Rebuilt:
    how = Variation(name=name, says="varied", work=Path("w"), dist=Path("d"))
    return Rebuilt(variation=how, wheel=Path("toy.whl"), sha256=SHA256, seconds=1.0, cache="")


@pytest.mark.parametrize("unequal", [(), ("other",)])
def test_is_named_by_the_wheels_hash(unequal: tuple[str, ...], tmp_path: Path) -> None:
    found = Verified(builds=(build("usual"), build("other")), unequal=unequal, causes=())

    path = record_verified(found, "toy-130", tmp_path)

    record = read_verification(read_document(path.read_text(), "wheel-verification"))
    assert path == tmp_path / "verify" / f"{SHA256}.json"
    assert (record.sha256, record.wheel, record.target) == (SHA256, "toy.whl", "toy-130")
    assert (record.is_same, len(record.builds)) == (not unequal, 2)


def test_later_verification_takes_the_place_of_the_earlier(tmp_path: Path) -> None:
    first = Verified(builds=(build("usual"),), unequal=(), causes=())
    record_verified(first, "toy-130", tmp_path)

    path = record_verified(dataclasses.replace(first, unequal=("warm",)), "toy-130", tmp_path)

    record = read_verification(read_document(path.read_text(), "wheel-verification"))
    assert not record.is_same
