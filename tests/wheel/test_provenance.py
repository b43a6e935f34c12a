from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest
from cyclonedx.model.bom import Bom
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2

from cuwheel.paths import ROOT
from cuwheel.system import process
from cuwheel.wheel.provenance import PREDICATE_TYPE, BuildRecord, Material, statement
from cuwheel.wheel.sbom import Contents, SbomComponent, wheel_sbom

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
CONTENTS = Contents(
    wheel=SbomComponent(name="toy", version="1.0+cu130", license="BSD-3-Clause"),
    source=SbomComponent(name="toy", version="1.0", sha256="b" * 64),
    contained=(SbomComponent(name="cudart_static", version="13.0.96", purl_type="generic"),),
    required=(
        SbomComponent(name="torch", description="torch==2.11.*"),
        SbomComponent(name="nvidia-cuda-runtime", description="nvidia-cuda-runtime>=13.0,<14"),
    ),
    tools=(
        SbomComponent(name="nvcc", version="13.0.88"),
        SbomComponent(name="cuwheel", version="0.1.0"),
    ),
    epoch=1_700_000_000,
)


@pytest.fixture
def stated() -> Callable[..., dict[str, Any]]:
    """Give the statement of the record with the given fields changed."""

    def state(**changes: Any) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(statement(dataclasses.replace(RECORD, **changes)))
        return content

    return state


@pytest.fixture
def bill() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(wheel_sbom(CONTENTS))
    return content


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


def test_gives_same_sbom_twice() -> None:
    assert wheel_sbom(CONTENTS) == wheel_sbom(dataclasses.replace(CONTENTS))


@pytest.mark.parametrize("seed", ["1", "2"])
def test_gives_same_sbom_in_another_process(seed: str) -> None:
    script = (
        "from tests.wheel.test_provenance import *; print(wheel_sbom(CONTENTS).decode(), end='')"
    )
    env = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}

    done = process.run([sys.executable, "-W", "error", "-c", script], env=env)

    assert done.output.encode() == wheel_sbom(CONTENTS)


def test_does_not_depend_on_order_of_parts() -> None:
    turned = dataclasses.replace(
        CONTENTS, required=CONTENTS.required[::-1], tools=CONTENTS.tools[::-1]
    )

    assert wheel_sbom(turned) == wheel_sbom(CONTENTS)


def test_numbers_other_contents_otherwise(bill: dict[str, Any]) -> None:
    other = json.loads(wheel_sbom(dataclasses.replace(CONTENTS, epoch=0)))

    assert other["serialNumber"] != bill["serialNumber"]


def test_dates_the_sbom_by_the_source(bill: dict[str, Any]) -> None:
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"


def test_parses_back_as_cyclonedx(bill: dict[str, Any]) -> None:
    bom: Bom = Bom.from_json(bill)  # type: ignore[attr-defined]

    assert bom.validate()
    assert bom.metadata.component
    assert str(bom.metadata.component.purl) == "pkg:pypi/toy@1.0%2Bcu130"


def test_lists_source_contained_and_required(bill: dict[str, Any]) -> None:
    roles = {part["name"]: part["properties"][0]["value"] for part in bill["components"]}

    assert roles == {
        "toy": "source",
        "cudart_static": "contained",
        "torch": "required",
        "nvidia-cuda-runtime": "required",
    }


def test_states_hash_of_the_source(bill: dict[str, Any]) -> None:
    source = next(part for part in bill["components"] if part["name"] == "toy")

    assert source["hashes"] == [{"alg": "SHA-256", "content": "b" * 64}]


def test_lists_tools_apart(bill: dict[str, Any]) -> None:
    tools = bill["metadata"]["tools"]["components"]

    assert [(tool["name"], tool["version"]) for tool in tools] == [
        ("cuwheel", "0.1.0"),
        ("nvcc", "13.0.88"),
    ]
