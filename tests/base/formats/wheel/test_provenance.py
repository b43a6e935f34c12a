from __future__ import annotations

import dataclasses
import json
from typing import Any, cast

import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2

from cuwheel.base.formats.wheel.provenance import BuildRecord, Material, statement
from tests.support.golden import Golden

RECORD = BuildRecord(
    wheel="toy-1.0+cu130-cp312-cp312-manylinux_2_34_x86_64.whl",
    sha256="a" * 64,
    parameters=(("recipe", "toy"), ("archs", ("80", "90")), ("source", "")),
    environment=(("CC", "/usr/bin/gcc"),),
    jobs=2,
    materials=(
        Material(name="source toy-1.0.tar.gz", sha256="b" * 64, uri="pkg:pypi/toy@1.0"),
        Material(name="host compiler", version="g++ (Debian 12.2.0-14) 12.2.0"),
    ),
    not_hermetic=("the host compiler comes from the machine",),
    tools=(("cuwheel", "0.1.0"), ("auditwheel", "6.8.2")),
    started=1_700_000_000.7,
    finished=1_700_000_060.2,
    log="build.log",
    log_sha256="c" * 64,
)


def test_states_the_build(golden: Golden) -> None:
    golden.check("formats/provenance.json", statement(RECORD))


def test_states_provenance_that_slsa_knows() -> None:
    slsa, parser = cast("Any", provenance_pb2), cast("Any", json_format)

    # A field that isn't in SLSA's own message makes this raise.
    message = parser.ParseDict(json.loads(statement(RECORD))["predicate"], slsa.Provenance())

    assert message.run_details.metadata.finished_on.seconds == 1_700_000_060


def test_does_not_depend_on_order_of_materials() -> None:
    reversed_record = dataclasses.replace(RECORD, materials=RECORD.materials[::-1])

    assert statement(reversed_record) == statement(RECORD)


@pytest.mark.parametrize("sha256", ["", "short", "A" * 64])
def test_refuses_subject_without_sha256(sha256: str) -> None:
    with pytest.raises(ValueError, match=r"SHA-256|digest"):
        statement(dataclasses.replace(RECORD, sha256=sha256))


def test_refuses_material_without_anything() -> None:
    with pytest.raises(ValueError, match="name, URI, or digest"):
        statement(dataclasses.replace(RECORD, materials=(Material(name=""),)))
