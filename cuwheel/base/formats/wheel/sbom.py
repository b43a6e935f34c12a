"""Bill of materials of a wheel: CycloneDX 1.6, in the place of PEP 770. Why: docs/adr/0008."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass, fields

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

SBOM_NAME = "cuwheel.cdx.json"  # in the wheel's `.dist-info/sboms/`
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:cuwheel:sbom:v1")


@dataclass(frozen=True, kw_only=True)
class SbomComponent:
    """Component of an SBOM.

    Attributes:
        version: empty where only a range is known.
        purl_type: `pypi`; `generic` for components without a package.
        sha256: of its file; empty where there is none.
    """

    name: str
    version: str = ""
    purl_type: str = "pypi"
    sha256: str = ""
    license: str = ""
    description: str = ""

    @property
    def identity(self) -> str:
        """Text of all its fields. Published serial numbers depend on it: it may not change."""
        values = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))
        return f"Part({', '.join(values)})"


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Facts in the SBOM of a wheel; none may depend on the machine or the time.

    Attributes:
        epoch: `SOURCE_DATE_EPOCH`, seconds since 1970.
    """

    wheel: SbomComponent
    source: SbomComponent
    contained: tuple[SbomComponent, ...]
    required: tuple[SbomComponent, ...]
    tools: tuple[SbomComponent, ...]
    epoch: int

    @property
    def serial_number(self) -> uuid.UUID:
        """Serial number, which doesn't depend on the order of the contents."""
        groups = (self.contained, self.required, self.tools)
        ordered = [sorted(component.identity for component in group) for group in groups]
        text = f"({self.wheel.identity}, {self.source.identity}, {ordered!r}, {self.epoch!r})"
        return uuid.uuid5(_NAMESPACE, text)


def wheel_sbom(contents: Contents) -> bytes:
    """Return a wheel's SBOM, CycloneDX 1.6 JSON; the same contents give the same bytes."""
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


def _component(part: SbomComponent, role: str) -> Component:
    is_program = role == "tool"
    purl = PackageURL(type=part.purl_type, name=part.name, version=part.version or None)
    return Component(
        name=part.name,
        version=part.version or None,
        type=ComponentType.APPLICATION if is_program else ComponentType.LIBRARY,
        bom_ref=f"{role}:{purl}",
        purl=None if is_program else purl,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=part.sha256)] if part.sha256 else [],
        licenses=[LicenseExpression(part.license)] if part.license else [],
        description=part.description or None,
        scope=ComponentScope.REQUIRED if role == "required" else None,
        properties=[Property(name="cuwheel:role", value=role)],
    )
