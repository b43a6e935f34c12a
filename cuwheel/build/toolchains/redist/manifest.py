"""NVIDIA's manifests of redistributable archives, `redistrib_<release>.json`, and their address.

Form of address and manifest: README of NVIDIA's build-system-archive-import-examples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cuwheel.base import limits
from cuwheel.base.errors import DownloadError, LockError, suggest
from cuwheel.base.fetch.download import PinnedFile, download
from cuwheel.base.fetch.urls import checked_mirror
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.regular_files import parse_json, read_bytes
from cuwheel.build.toolchains.redist.lock_file import (
    PLATFORMS,
    RELEASES,
    Product,
    RedistArchive,
    RedistLock,
    digest_of_redist_input,
    parse_line,
    read_products,
)
from cuwheel.build.workspace.workspace import Workspace

MIRROR_VARIABLE = "CUWHEEL_REDIST_MIRROR"
UNREACHABLE_FIX = (
    f"set {MIRROR_VARIABLE} to a copy of NVIDIA's folder `compute` (https://HOST/PATH or "
    "file:///FOLDER)"
)


def base_address(environ: Mapping[str, str]) -> str:
    """Return the address that paths of a lock follow; raises UsageError for a malformed mirror."""
    mirror = environ.get(MIRROR_VARIABLE, "").strip()
    return checked_mirror(mirror, MIRROR_VARIABLE) if mirror else RELEASES


def lock_products(source: Path, workspace: Workspace, *, note: str = "") -> RedistLock:
    """Return the lock of a `redist.in`, as NVIDIA's manifests are now.

    Args:
        note: about the manifests, recorded in the lock.

    Raises:
        LockError: the input can't be read or has no CUDA, or a manifest lacks a component.
        DownloadError: a manifest can't be downloaded.
    """
    products = read_products(source)
    majors = [product.release.split(".")[0] for product in products if product.name == "cuda"]
    if not majors:
        raise LockError(
            f"{source.parent.name}/{source.name} names no release of CUDA",
            why="of other products the archives for that CUDA are locked",
            fix=f"add a line `cuda[cuda_nvcc,cuda_cudart]==RELEASE` to {source}",
        )
    base = base_address(workspace.environ)
    archives: list[RedistArchive] = []
    manifests = []
    for product in products:
        manifest, origin = _read_manifest(product, base, workspace)
        archives += _archives_of(product, manifest, majors[0])
        manifests.append(origin)
    return RedistLock(
        archives=tuple(archives),
        manifest=", ".join(manifests) + (f" ({note})" if note else ""),
        input_digest=digest_of_redist_input(source),
    )


def _read_manifest(product: Product, base: str, workspace: Workspace) -> tuple[Any, str]:
    """Download a product's manifest; return its content, and its name with its SHA-256."""
    name = f"redistrib_{product.release}.json"
    url = f"{base}/{product.name}/redist/{name}"
    file = PinnedFile(name=name, sha256="", max_size=limits.JSON)
    try:
        with temporary_folder() as folder:
            path = folder / name
            download(
                file,
                path,
                url,
                console=workspace.console,
                fix=UNREACHABLE_FIX,
            )
            content = read_bytes(path)
    except DownloadError as problem:
        raise DownloadError(
            f"the manifest of {product.name} {product.release} could not be downloaded",
            why=f"{problem.what}: {problem.why}",
            fix=f"correct the release in redist.in, or {UNREACHABLE_FIX}"
            if problem.is_missing
            else UNREACHABLE_FIX,
        ) from problem
    try:
        manifest = parse_json(content)
        # Old manifests state neither; the version of nvcc is checked after the installation.
        label = manifest.get("release_label", product.release)
        kind = manifest.get("release_product", product.name)
    except (ValueError, AttributeError, RecursionError):
        label, kind = "", "no manifest"
    if (kind, label) != (product.name, product.release):
        raise LockError(
            f"{name} is not the manifest of {product.name} {product.release}",
            why=f"what was sent is {kind} {label}".rstrip(),
            fix=f"examine what {MIRROR_VARIABLE} names",
        )
    digest = hashlib.sha256(content).hexdigest()
    return manifest, f"{product.name} {product.release} sha256:{digest}"


def _archives_of(
    product: Product, manifest: Mapping[str, Any], major: str
) -> Iterator[RedistArchive]:
    """Yield the archives of a product's components for each platform that NVIDIA has them for.

    Args:
        major: release of CUDA, `12`, for products with an archive for each.
    """
    for name in product.components:
        described = manifest.get(name)
        found = [
            _archive(product, name, platform, described, major)
            for platform in PLATFORMS.values()
            if isinstance(described, dict) and platform in described
        ]
        if not found:
            known = [key for key, value in manifest.items() if isinstance(value, dict)]
            raise LockError(
                f"{product.name} {product.release} has no component {name} for Linux",
                why=suggest(name, known),
                fix=f"correct or remove {name} in redist.in",
            )
        yield from found


def _archive(
    product: Product, name: str, platform: str, described: Mapping[str, Any], major: str
) -> RedistArchive:
    try:
        entry = described[platform]
        entry = entry.get(f"cuda{major}", entry)
        archive = RedistArchive(
            name=name,
            version=described["version"],
            platform=platform,
            sha256=entry["sha256"],
            size=int(entry.get("size", 0)),
            path=f"{product.name}/redist/{entry['relative_path']}",
        )
        fault = "" if parse_line(archive.line) == archive else archive.line
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        fault = f"it has another form than NVIDIA's: {problem!r}"
    if fault:
        raise LockError(
            f"the manifest of {product.name} {product.release} is invalid",
            why=f"{name} for {platform}: {fault}",
            fix=f"examine what {MIRROR_VARIABLE} names",
        )
    return archive
