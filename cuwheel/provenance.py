"""Where a wheel came from: an in-toto statement beside it, a CycloneDX SBOM inside it.

Forms: in-toto Attestation Framework, Statement v1; SLSA Provenance v1; CycloneDX 1.6; PEP 770
says where an SBOM lies in a wheel. Why these: docs/adr/0008.
"""

from __future__ import annotations

import datetime
import json
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement
from packageurl import PackageURL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:cuwheel:build:v1"  # what the parameters mean: docs/adr/0008
BUILDER = "urn:cuwheel:builder:local"  # whoever ran cuwheel; nobody vouches for the machine
SBOM_NAME = "cuwheel.cdx.json"  # in the wheel's `.dist-info/sboms/`

_SHA256 = re.compile(r"[0-9a-f]{64}")
_to_dict: Callable[[Any], dict[str, Any]] = json_format.MessageToDict  # it has no annotations
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:cuwheel:sbom:v1")


@dataclass(frozen=True, kw_only=True)
class Material:
    """Something that went into the build.

    Attributes:
        name: what it is, e.g. `source causal_conv1d-1.6.1.tar.gz`.
        sha256: of its content; empty where nothing could be hashed.
        uri: where it came from; a package URL (`pkg:pypi/…`) for packages.
        version: its own words, e.g. a compiler's banner.
    """

    name: str
    sha256: str = ""
    uri: str = ""
    version: str = ""


@dataclass(frozen=True, kw_only=True)
class BuildRecord:
    """What the provenance states of one build.

    Attributes:
        wheel: file name.
        sha256: of the wheel.
        parameters: what was asked for, by name: recipe, version, toolkit, python, framework,
            archs, provider, source; empty ones are left out.
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


@dataclass(frozen=True, kw_only=True)
class Part:
    """A component of an SBOM.

    Attributes:
        name: normalised project name, or a program's name.
        version: empty where only a range is known.
        purl_type: `pypi`; `generic` for what has no package.
        sha256: of the file it came as; empty where there is none.
        license: SPDX expression.
        description: for the reader, e.g. the requirement with its range.
    """

    name: str
    version: str = ""
    purl_type: str = "pypi"
    sha256: str = ""
    license: str = ""
    description: str = ""

    @property
    def purl(self) -> PackageURL:
        """Its package URL."""
        return PackageURL(type=self.purl_type, name=self.name, version=self.version or None)


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What the SBOM of a wheel states; nothing in it may depend on the machine or the time.

    Attributes:
        wheel: the wheel itself, its version with the local part, without hash.
        source: what it was compiled from.
        contained: libraries inside it, statically linked or copied in.
        required: wheels that it takes libraries from.
        tools: compilers and what else made it.
        epoch: `SOURCE_DATE_EPOCH`, seconds since 1970.
    """

    wheel: Part
    source: Part
    contained: tuple[Part, ...]
    required: tuple[Part, ...]
    tools: tuple[Part, ...]
    epoch: int

    @property
    def serial_number(self) -> uuid.UUID:
        """The same for the same contents, in whichever order they are given."""
        groups = (self.contained, self.required, self.tools)
        ordered = [sorted(map(repr, group)) for group in groups]
        return uuid.uuid5(_NAMESPACE, repr((self.wheel, self.source, ordered, self.epoch)))


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


def wheel_sbom(contents: Contents) -> bytes:
    """A wheel's SBOM, CycloneDX 1.6 JSON; the same contents give the same bytes."""
    root = _component(contents.wheel, "wheel")
    inside = [_component(part, "contained") for part in contents.contained]
    outside = [_component(part, "required") for part in contents.required]
    source = _component(contents.source, "source")
    time = datetime.datetime.fromtimestamp(contents.epoch, tz=datetime.timezone.utc)
    tools = ToolRepository(components=[_component(part, "tool") for part in contents.tools])
    bom = Bom(
        components=[source, *inside, *outside],
        serial_number=contents.serial_number,
        metadata=BomMetaData(component=root, timestamp=time, tools=tools),
    )
    bom.register_dependency(root, [source, *inside, *outside])
    for component in (source, *inside, *outside):
        bom.register_dependency(component)
    return (JsonV1Dot6(bom).output_as_string(indent=2) + "\n").encode()


def _provenance(record: BuildRecord) -> Any:
    """The predicate, as the library's own message: a field that SLSA doesn't know is an error."""
    message = provenance_pb2.Provenance()  # type: ignore[attr-defined]
    definition, details = message.build_definition, message.run_details
    definition.build_type = BUILD_TYPE
    definition.external_parameters.update(_plain(record.parameters))
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


def _plain(pairs: Iterable[tuple[str, str | tuple[str, ...]]]) -> dict[str, str | list[str]]:
    return {
        name: value if isinstance(value, str) else list(value) for name, value in pairs if value
    }


def _descriptors(materials: Iterable[Material]) -> list[Any]:
    ordered = sorted(materials, key=lambda item: (item.name, item.version, item.sha256))
    return [_descriptor(material) for material in ordered]


def _descriptor(material: Material) -> Any:
    """A material as in-toto describes resources.

    Raises:
        ValueError: its hash isn't SHA-256, or it has neither name, hash nor URI.
    """
    if material.sha256 and not _SHA256.fullmatch(material.sha256):
        raise ValueError(f"{material.name}: {material.sha256!r} is no SHA-256")
    described = ResourceDescriptor(
        name=material.name,
        uri=material.uri,
        digest={"sha256": material.sha256} if material.sha256 else None,
        annotations={"version": material.version} if material.version else None,
    )
    described.validate()
    return described.pb


def _component(part: Part, role: str) -> Component:
    is_program = role == "tool"
    return Component(
        name=part.name,
        version=part.version or None,
        type=ComponentType.APPLICATION if is_program else ComponentType.LIBRARY,
        bom_ref=f"{role}:{part.purl}",
        purl=None if is_program else part.purl,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=part.sha256)] if part.sha256 else [],
        licenses=[LicenseExpression(part.license)] if part.license else [],
        description=part.description or None,
        scope=ComponentScope.REQUIRED if role == "required" else None,
        properties=[Property(name="cuwheel:role", value=role)],
    )
