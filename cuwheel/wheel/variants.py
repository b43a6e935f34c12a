"""Wheel variants: the same wheel under a name that says for which GPUs and drivers it is.

Installers that know variants take the one that fits the machine, and the plain wheel where none
does; all others don't see them, as no name of a wheel has a sixth part behind its platform. Names,
`variant.json` and the index file are those of PEP 825 (draft), the provider is named as in PEP 850
(draft); what the values mean is the nvidia provider's, as uv 0.13.8 has it built in.
"""

from __future__ import annotations

import calendar
import json
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuwheel.system.files import new_file
from cuwheel.wheel.archive import open_wheel, pack, unpack_wheel
from cuwheel.wheel.metadata import dist_info_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VARIANT_JSON = "variant.json"  # in `.dist-info`
VARIANTS = "-variants.json"  # end of the index file's name
_SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
_NAMESPACE = "nvidia"
# Who can tell what the machine has; uv has it built in and installs nothing.
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
    """What a variant says that it needs.

    Attributes:
        label: the part of the file's name, `cu13_sm90`.
        properties: of the namespace `nvidia`: values by feature; one of each has to fit.
    """

    label: str
    properties: Mapping[str, tuple[str, ...]]


def cuda_variant(majors: Iterable[int], archs: Iterable[str]) -> Variant | None:
    """What a wheel's machine code needs; None where that can't be said.

    Drivers of a CUDA release run what was compiled for an older one, and machine code of any
    release with the same major; so the bound is the major's first release. PTX is left out, since
    the driver that compiles it has to be as new as the toolkit was, and so are `90a` and `100f`,
    for which the provider has no value: these machines get the plain wheel, which holds the same.

    Args:
        majors: the CUDA majors that the wheel's libraries work with.
        archs: compute capabilities of its machine code, without dot.
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
    """The name that a variant's file would have without its label, and the label.

    A plain wheel's name stays, and its label is empty.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return name, ""
    label = found["label"]
    return f"{name.removesuffix(f'-{label}.whl')}.whl", label


def variant_name(wheel: str, variant: Variant) -> str:
    """The name of a variant's file.

    Args:
        wheel: name of the plain wheel's file.
        variant: what it says.
    """
    return f"{wheel.removesuffix('.whl')}-{variant.label}.whl"


def variants_name(wheel: str) -> str:
    """The name of the index file for all variants of a wheel's release.

    Args:
        wheel: name of a wheel's file, plain or not.
    """
    return f"{'-'.join(wheel.split('-')[:2])}{VARIANTS}"


def write_variant(wheel: Path, path: Path, variant: Variant, scratch: Path) -> None:
    """Write a wheel again under a variant's name; the same wheel gives the same bytes.

    Args:
        wheel: the plain one.
        path: the file to write.
        variant: what it says.
        scratch: a folder with room for the wheel and all that is in it.

    Raises:
        UnsafeArchiveError: the wheel is damaged, or holds what no installer should take.
        OSError: something can't be read or written.
    """
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        content, packed = Path(folder, "content"), Path(folder, path.name)
        content.mkdir()
        unpack_wheel(wheel, content)
        document = variants_document([variant_document(variant)])
        (dist_info_of(content) / VARIANT_JSON).write_bytes(document)
        pack(content, packed, epoch=_epoch_of(wheel))
        with packed.open("rb") as source, new_file(path) as stream:
            shutil.copyfileobj(source, stream)


def variant_document(variant: Variant) -> dict[str, Any]:
    """What `variant.json` says of one variant."""
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
    """The index file of a release: what the `variant.json` of its wheels say, together.

    Args:
        documents: of each wheel; the first has the word where two say a thing.
    """
    merged: dict[str, Any] = {}
    for document in documents:
        for key, value in document.items():
            there = merged.setdefault(key, value)
            if isinstance(value, dict) and isinstance(there, dict):
                merged[key] = {**value, **there}
    if "variants" in merged:
        merged["variants"] = dict(sorted(merged["variants"].items()))
    return (json.dumps(merged, indent=1) + "\n").encode()


def _epoch_of(wheel: Path) -> int:
    """The time that a wheel's METADATA has, seconds since 1970."""
    with open_wheel(wheel) as opened:
        when = opened.archive.getinfo(f"{opened.dist_info}/METADATA").date_time
    return calendar.timegm((*when, 0, 0, 0))
