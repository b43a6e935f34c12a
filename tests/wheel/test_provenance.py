from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2

from cuwheel.wheel.provenance import PREDICATE_TYPE, BuildRecord, Material, statement

if TYPE_CHECKING:
    from collections.abc import Callable


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


@pytest.fixture
def stated() -> Callable[..., dict[str, Any]]:
    """Give the statement of the record with the given fields changed."""

    def state(**changes: Any) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(statement(dataclasses.replace(RECORD, **changes)))
        return content

    return state


def test_names_the_wheel_as_subject(stated: Callable[..., dict[str, Any]]) -> None:
    content = stated()

    assert content["_type"] == "https://in-toto.io/Statement/v1"
    assert content["predicateType"] == PREDICATE_TYPE
    assert content["subject"] == [{"name": RECORD.wheel, "digest": {"sha256": "a" * 64}}]


def test_states_provenance_that_slsa_knows(stated: Callable[..., dict[str, Any]]) -> None:
    slsa, parser = cast("Any", provenance_pb2), cast("Any", json_format)

    # A field that isn't in SLSA's own message makes this raise.
    message = parser.ParseDict(stated()["predicate"], slsa.Provenance())

    assert message.run_details.metadata.finished_on.seconds == 1_700_000_060


def test_states_what_was_asked_for(stated: Callable[..., dict[str, Any]]) -> None:
    definition = stated()["predicate"]["buildDefinition"]

    assert definition["externalParameters"] == {"recipe": "toy", "archs": ["80", "90"]}


def test_states_what_was_not_hermetic(stated: Callable[..., dict[str, Any]]) -> None:
    definition = stated(not_hermetic=("no network namespace",))["predicate"]["buildDefinition"]

    assert definition["internalParameters"]["notHermetic"] == ["no network namespace"]


def test_states_environment_and_jobs(stated: Callable[..., dict[str, Any]]) -> None:
    parameters = stated()["predicate"]["buildDefinition"]["internalParameters"]

    assert parameters["environment"] == {"CC": "/usr/bin/gcc"}
    assert parameters["jobs"] == "2"


def test_states_materials_with_hash_or_words(stated: Callable[..., dict[str, Any]]) -> None:
    found = stated()["predicate"]["buildDefinition"]["resolvedDependencies"]

    assert found == [
        {"name": "host compiler", "annotations": {"version": "g++ (Debian 12.2.0-14) 12.2.0"}},
        {
            "name": "source toy-1.0.tar.gz",
            "uri": "pkg:pypi/toy@1.0",
            "digest": {"sha256": "b" * 64},
        },
    ]


def test_states_the_log_as_byproduct(stated: Callable[..., dict[str, Any]]) -> None:
    details = stated()["predicate"]["runDetails"]

    assert details["byproducts"] == [{"name": "build.log", "digest": {"sha256": "c" * 64}}]


def test_does_not_depend_on_order_of_materials() -> None:
    turned = dataclasses.replace(RECORD, materials=RECORD.materials[::-1])

    assert statement(turned) == statement(RECORD)


@pytest.mark.parametrize("sha256", ["", "short", "A" * 64])
def test_refuses_subject_without_sha256(sha256: str) -> None:
    with pytest.raises(ValueError, match=r"SHA-256|digest"):
        statement(dataclasses.replace(RECORD, sha256=sha256))


def test_refuses_material_without_anything() -> None:
    with pytest.raises(ValueError, match="name, URI, or digest"):
        statement(dataclasses.replace(RECORD, materials=(Material(name=""),)))
