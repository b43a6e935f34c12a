"""The declarations of a wheel: CUDA, framework and string ABI in its version, and provenance.

There is no standard for versions; each form is listed once, with the projects that use it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from packaging.version import Version

from cuwheel.base.fetch.indexes.offers import Offer
from cuwheel.base.fetch.indexes.pages import beside, link_fault, read_page
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.formats.wheel.provenance import BUILD_TYPE
from cuwheel.base.formats.wheel.publication import STATEMENT

# A fact, and its pattern for the normalised local version (lower case, parts joined by dots), whose
# groups are joined with dots.
#
# flash-attn, causal-conv1d and mamba: cu12torch2.8cxx11abiTRUE. Astral: cu.12.8.torch.2.11.
# PyTorch, vLLM, xformers: cu128, cpu, rocm6.4, xpu. PyTorch Geometric: pt28cu128. PyTorch3D:
# pt2.8.0cu129. NATTEN: torch2110cu130. Ours: cu130torch2.11. Projects with a name for each CUDA:
# jax-cuda13-plugin, cupy-cuda12x, nvidia-cublas-cu12, spconv-cu120.
_FORMS = (
    ("cuda", re.compile(r"(?<![a-z])cu(?:da)?\.?(\d\d)(?:\.?(\d))?(?!\d)")),
    ("torch", re.compile(r"torch(\d)([3-9]|1\d)0(?=cu)|(?:torch|pt)\.?(\d)\.?(\d{1,2})(?!\d)")),
    ("jax", re.compile(r"jax\.?(\d)\.(\d{1,2})(?!\d)")),
    ("cxx11_abi", re.compile(r"cxx11[-_.]?abi[-_.]?(true|false)")),
    ("device", re.compile(r"(?<![a-z])(rocm|cpu|xpu|metal|vulkan)")),
)
_PROJECT_CUDA = re.compile(r"-(?:cuda|cu)(\d\d)(\d)?x?(?=-|$)")


def declared(project: str, version: Version) -> dict[str, str]:
    """Return the facts in a wheel's name: `{"cuda": "12.8", "torch": "2.8"}`."""
    facts = {}
    for fact, pattern in _FORMS:
        if match := pattern.search(version.local or ""):
            facts[fact] = ".".join(filter(None, match.groups()))
    if "cuda" not in facts and (match := _PROJECT_CUDA.search(project)):
        facts["cuda"] = ".".join(filter(None, match.groups()))
    return facts


def read_parameters(offer: Offer, attempts: Attempts) -> Mapping[str, object] | None:
    """Return the build parameters in a wheel's statement; None: there is none for it.

    A statement about other bytes than those in the index doesn't count, nor does that of another
    builder: its parameters have another meaning.
    """
    page = read_page(beside(offer.url, STATEMENT), attempts, "application/json")
    if isinstance(page, str):
        return None
    try:
        content = page.json()
        [subject] = content["subject"]
        definition = content["predicate"]["buildDefinition"]
        parameters = definition["externalParameters"]
        is_ours = definition["buildType"] == BUILD_TYPE  # which defines the parameters
        is_same_file = offer.sha256 in {"", str(subject["digest"]["sha256"]).lower()}
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return parameters if is_ours and is_same_file and isinstance(parameters, dict) else None


def read_signers(offer: Offer, attempts: Attempts) -> tuple[str, ...]:
    """Return for whom a wheel's attestations are signed, `GitHub OWNER/REPOSITORY`; none: empty.

    An index checks signatures before it serves them (PEP 740); they aren't checked again here.
    """
    if not offer.attestations or link_fault(offer.attestations, offer.index):
        return ()
    page = read_page(offer.attestations, attempts, "application/vnd.pypi.integrity.v1+json")
    if isinstance(page, str):
        return ()
    try:
        publishers = [bundle["publisher"] for bundle in page.json()["attestation_bundles"]]
        found = [
            f"{publisher['kind']} {publisher.get('repository') or publisher['email']}"
            for publisher in publishers
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ()
    return tuple(dict.fromkeys(found))
