"""Provenance of a wheel: an in-toto statement next to it.

Forms: in-toto Attestation Framework, Statement v1; SLSA Provenance v1. Why these: docs/adr/0008.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement

PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:cuwheel:build:v1"  # meaning of the parameters: docs/adr/0008
BUILDER = "urn:cuwheel:builder:local"  # any machine, without a guarantee

_SHA256 = re.compile(r"[0-9a-f]{64}")
_to_dict: Callable[[Any], dict[str, Any]] = json_format.MessageToDict  # it has no annotations


@dataclass(frozen=True, kw_only=True)
class Material:
    """Input of a build.

    Attributes:
        name: e.g. `source causal_conv1d-1.6.1.tar.gz`.
        sha256: of its content; empty where nothing could be hashed.
        uri: its origin; a package URL (`pkg:pypi/…`) for packages.
        git_commit: 40 hexadecimal digits, of a checkout; else empty.
    """

    name: str
    sha256: str = ""
    uri: str = ""
    version: str = ""
    git_commit: str = ""


@dataclass(frozen=True, kw_only=True)
class BuildRecord:
    """Facts of one build for its provenance.

    Attributes:
        parameters: of the request, by name: recipe, version, toolkit, python, framework, archs,
            provider, platform, source; empty ones are left out.
        materials: all inputs, in any order.
        tools: name and version of tools that aren't inputs: cuwheel, uv, strip, …
        started: seconds since 1970.
        finished: seconds since 1970.
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
    """Return the in-toto statement of a build: SLSA provenance, JSON with sorted keys.

    Raises:
        ValueError: a hash isn't SHA-256, or the statement isn't valid.
    """
    log = Material(name=record.log, sha256=record.log_sha256)
    materials = sorted(record.materials, key=lambda item: (item.name, item.version, item.sha256))
    predicate = {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {name: value for name, value in record.parameters if value},
            "internalParameters": {
                "environment": dict(record.environment),
                "jobs": str(record.jobs),
                "notHermetic": record.not_hermetic,
            },
            "resolvedDependencies": [_to_dict(_descriptor(material)) for material in materials],
        },
        "runDetails": {
            "builder": {"id": record.builder, "version": dict(record.tools)},
            "metadata": {"startedOn": _date(record.started), "finishedOn": _date(record.finished)},
            "byproducts": [_to_dict(_descriptor(log))],
        },
    }
    subject = _descriptor(Material(name=record.wheel, sha256=record.sha256))
    document = Statement([subject], PREDICATE_TYPE, predicate)
    document.validate()
    return json.dumps(_to_dict(document.pb), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _descriptor(material: Material) -> Any:
    if material.sha256 and not _SHA256.fullmatch(material.sha256):
        raise ValueError(f"{material.name}: {material.sha256!r} is not a SHA-256")
    digests = {"sha256": material.sha256, "gitCommit": material.git_commit}
    descriptor = ResourceDescriptor(
        name=material.name,
        uri=material.uri,
        digest={name: digest for name, digest in digests.items() if digest} or None,
        annotations={"version": material.version} if material.version else None,
    )
    descriptor.validate()
    return descriptor.pb
