"""Where a wheel came from: an in-toto statement beside it, a CycloneDX SBOM inside it.

Forms: in-toto Attestation Framework, Statement v1; SLSA Provenance v1; CycloneDX 1.6; PEP 770
says where an SBOM lies in a wheel. Why these: docs/adr/0008.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:cuwheel:build:v1"  # what the parameters mean: docs/adr/0008
BUILDER = "urn:cuwheel:builder:local"  # whoever ran cuwheel; nobody vouches for the machine

_SHA256 = re.compile(r"[0-9a-f]{64}")
_to_dict: Callable[[Any], dict[str, Any]] = json_format.MessageToDict  # it has no annotations


@dataclass(frozen=True, kw_only=True)
class Material:
    """Something that went into the build.

    Attributes:
        name: what it is, e.g. `source causal_conv1d-1.6.1.tar.gz`.
        sha256: of its content; empty where nothing could be hashed.
        uri: where it came from; a package URL (`pkg:pypi/…`) for packages.
        version: its own words, e.g. a compiler's banner.
        git_commit: 40 hexadecimal digits, of a checkout; else empty.
    """

    name: str
    sha256: str = ""
    uri: str = ""
    version: str = ""
    git_commit: str = ""


@dataclass(frozen=True, kw_only=True)
class BuildRecord:
    """What the provenance states of one build.

    Attributes:
        wheel: file name.
        sha256: of the wheel.
        parameters: what was requested, by name: recipe, version, toolkit, python, framework,
            archs, provider, platform, source; empty ones are left out.
        environment: variables of the build.
        jobs: how many compiles ran at once.
        materials: everything that went in; the order doesn't matter.
        not_hermetic: what was not pinned or shut off, one line each.
        tools: name and version of what took part without going in: cuwheel, uv, strip, …
        started: seconds since 1970.
        finished: seconds since 1970.
        log: file name of the build's log.
        log_sha256: of that file.
        builder: URI of who built it.
    """

    wheel: str
    sha256: str
    parameters: tuple[tuple[str, str | tuple[str, ...]], ...]
    environment: tuple[tuple[str, str], ...]
    jobs: int
    materials: tuple[Material, ...]
    not_hermetic: tuple[str, ...]
    tools: tuple[tuple[str, str], ...]
    started: float
    finished: float
    log: str
    log_sha256: str
    builder: str = BUILDER


def statement(record: BuildRecord) -> str:
    """The in-toto statement of a build: SLSA provenance, JSON with sorted keys.

    Raises:
        ValueError: a hash isn't SHA-256, or the statement isn't valid.
    """
    subject = _descriptor(Material(name=record.wheel, sha256=record.sha256))
    predicate = _to_dict(_provenance(record))
    stated = Statement([subject], PREDICATE_TYPE, predicate)
    stated.validate()
    return json.dumps(_to_dict(stated.pb), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _provenance(record: BuildRecord) -> Any:
    """The predicate, as the library's own message: a field that SLSA doesn't know is an error."""
    message = provenance_pb2.Provenance()  # type: ignore[attr-defined]
    definition, details = message.build_definition, message.run_details
    definition.build_type = BUILD_TYPE
    definition.external_parameters.update(
        {
            name: value if isinstance(value, str) else list(value)
            for name, value in record.parameters
            if value
        }
    )
    definition.internal_parameters.update(
        {
            "environment": dict(record.environment),
            "jobs": str(record.jobs),
            "notHermetic": list(record.not_hermetic),
        }
    )
    definition.resolved_dependencies.extend(_descriptors(record.materials))
    details.builder.id = record.builder
    details.builder.version.update(dict(record.tools))
    details.metadata.started_on.FromSeconds(int(record.started))
    details.metadata.finished_on.FromSeconds(int(record.finished))
    log = Material(name=record.log, sha256=record.log_sha256)
    details.byproducts.extend(_descriptors((log,)))
    return message


def _descriptors(materials: Iterable[Material]) -> list[Any]:
    ordered = sorted(materials, key=lambda item: (item.name, item.version, item.sha256))
    return [_descriptor(material) for material in ordered]


def _descriptor(material: Material) -> Any:
    """A material as in-toto describes resources.

    Raises:
        ValueError: its hash isn't SHA-256, or it has neither name, hash nor URI.
    """
    if material.sha256 and not _SHA256.fullmatch(material.sha256):
        raise ValueError(f"{material.name}: {material.sha256!r} is not a SHA-256")
    digests = {"sha256": material.sha256, "gitCommit": material.git_commit}
    described = ResourceDescriptor(
        name=material.name,
        uri=material.uri,
        digest={name: digest for name, digest in digests.items() if digest} or None,
        annotations={"version": material.version} if material.version else None,
    )
    described.validate()
    return described.pb
