"""Wheel variants: the same wheel under a name with its GPUs and drivers.

Installers that support variants take the one that fits the machine, and the plain wheel where none
does; others ignore them, as no name of a wheel has a sixth part behind its platform. Names,
`variant.json` and the index file are those of PEP 825 (draft), the provider is named as in PEP 850
(draft); the meaning of the values is that of the nvidia provider, as built into uv 0.13.8.
"""

from __future__ import annotations

import calendar
import json
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuwheel.base.formats.wheel.archive import open_wheel, pack, unpack_wheel
from cuwheel.base.formats.wheel.metadata import dist_info_of
from cuwheel.base.system.files import new_file
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.regular_files import open_file

VARIANT_JSON = "variant.json"  # in `.dist-info`
VARIANTS = "-variants.json"  # end of the index file's name
_SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
_NAMESPACE = "nvidia"
# Package that detects the machine's properties; uv has it built in and installs nothing.
_PROVIDER = {
    "requires": ["nvidia-variant-provider"],
    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
}
_NAME = re.compile(
    # No tag of a Python begins with a digit, and a build tag does.
    r"[^-]+-[^-]+(?:-\d[^-]*)?-[^-\d][^-]*-[^-]+-[^-]+-(?P<label>[0-9a-z._]+)\.whl"
)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Requirements of a variant.

    Attributes:
        label: the part of the file's name, `cu13_sm90`.
        properties: of the namespace `nvidia`: values by feature; one of each has to fit.
    """

    label: str
    properties: Mapping[str, tuple[str, ...]]


def cuda_variant(majors: Iterable[int], archs: Iterable[str]) -> Variant | None:
    """Return the requirements of a wheel's machine code; None where they can't be expressed.

    Drivers of a CUDA release run code that was compiled for an older one, and machine code of any
    release with the same major; so the bound is the major's first release. PTX is left out, since
    the driver that compiles it has to be as new as the toolkit was, and so are `90a` and `100f`,
    for which the provider has no value: these machines get the plain wheel, which holds the same.
    """
    known, plain = tuple(majors), tuple(arch for arch in archs if arch.isdecimal())
    if len(known) != 1 or not plain:
        return None
    return Variant(
        label="_".join((f"cu{known[0]}", *(f"sm{arch}" for arch in plain))),
        properties={
            "cuda_version_lower_bound": (f"{known[0]}.0",),
            "sm_arch": tuple(f"{arch}_real" for arch in plain),
        },
    )


def split_variant(name: str) -> tuple[str, str]:
    """Return the name of a variant's file without its label, and the label.

    A plain wheel's name stays, and its label is empty.
    """
    match = _NAME.fullmatch(name)
    label = match["label"] if match else ""
    return (f"{name.removesuffix(f'-{label}.whl')}.whl", label) if match else (name, "")


def variant_name(wheel: str, variant: Variant) -> str:
    """Return the name of a variant's file."""
    return f"{wheel.removesuffix('.whl')}-{variant.label}.whl"


def variants_name(wheel: str) -> str:
    """Return the name of the index file for all variants of a wheel's release."""
    return f"{'-'.join(wheel.split('-')[:2])}{VARIANTS}"


def write_variant(wheel: Path, path: Path, variant: Variant, scratch: Path) -> None:
    """Write a wheel again under a variant's name; the same wheel gives the same bytes."""
    with temporary_folder(scratch) as folder:
        content, packed = folder / "content", folder / path.name
        content.mkdir()
        unpack_wheel(wheel, content)
        document = variants_document([variant_document(variant)])
        (dist_info_of(content) / VARIANT_JSON).write_bytes(document)
        with open_wheel(wheel) as opened:  # the time of its METADATA
            time = opened.archive.getinfo(f"{opened.dist_info}/METADATA").date_time
        pack(content, packed, epoch=calendar.timegm((*time, 0, 0, 0)))
        with open_file(packed) as source, new_file(path) as stream:
            shutil.copyfileobj(source, stream)


def variant_document(variant: Variant) -> dict[str, Any]:
    """Return the contents of `variant.json` for one variant."""
    return {
        "$schema": _SCHEMA,
        "default-priorities": {"namespace": [_NAMESPACE]},
        "providers": {_NAMESPACE: _PROVIDER},
        "variants": {
            variant.label: {
                _NAMESPACE: {name: list(values) for name, values in variant.properties.items()}
            }
        },
    }


def variants_document(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the index file of a release: its wheels' merged `variant.json`, the first wins."""
    merged: dict[str, Any] = {}
    for document in documents:
        for key, value in document.items():
            earlier = merged.setdefault(key, value)
            if isinstance(value, dict) and isinstance(earlier, dict):
                merged[key] = {**value, **earlier}
    if "variants" in merged:
        merged["variants"] = dict(sorted(merged["variants"].items()))
    return (json.dumps(merged, indent=1) + "\n").encode()
