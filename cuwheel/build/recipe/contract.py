"""The contract of a target, against which the audit checks its wheel."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from cuwheel.base.formats.binaries.archs import sort_archs
from cuwheel.base.formats.wheel.publication import split_mark
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.link import MODES, mode_name
from cuwheel.build.recipe.target import Target, declared_target
from cuwheel.check.audit.case import Contract
from cuwheel.check.cuda.toolkits import TOOLKITS


def contract_of(target: Target) -> Contract:
    """Return the contract of a target's wheel."""
    recipe = target.recipe
    return Contract(
        project=canonicalize_name(target.project),
        release=Version(recipe.version).public,
        local_version=target.local_version,
        cuda=target.toolkit.major,
        python=None if recipe.python == "any" else target.python,
        is_abi3=recipe.python == "abi3",
        links=recipe.link.components,
        has_driver=recipe.link.has_driver,
        mode=mode_name(target.mode),
        bundles=recipe.link.bundles,
        extra=target.extra,
        archs=sort_archs(target.archs),
        ptx_archs=sort_archs(target.ptx_archs),
        is_stable=target.is_stable,
        max_size=target.max_wheel_size,
    )


def contract_of_wheel(
    wheel: Path, entries: Iterable[CatalogueEntry], archs: tuple[str, ...] = ()
) -> Contract | None:
    """Return the contract of the target that a wheel's name states.

    Args:
        archs: that the device code has to be for; empty: the recipe's list.

    Returns:
        None where no recipe makes a wheel of this name.
    """
    try:
        project, version, _, tags = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename:
        return None
    # `3.12` of cp312; the stable ABI and wheels for every Python name the oldest.
    minors = sorted(tag.interpreter.removeprefix("cp3") for tag in tags)
    kind = "t" if any(re.fullmatch(r"cp\d+t", tag.abi) for tag in tags) else ""
    python = f"3.{next(filter(str.isdigit, minors), '0')}{kind}"
    stated = (project, version.public, split_mark(version)[0])
    loaded = ((entry.recipe, entry.root) for entry in entries if entry.recipe)
    for (recipe, root), toolkit in itertools.product(loaded, TOOLKITS):
        if toolkit.release not in recipe.toolkits:
            continue
        declared = declared_target(recipe, toolkit.release, python, root)
        for mode in (declared.mode, *(kind() for kind in MODES.values())):
            target = replace(declared, mode=mode)
            public, local = Version(recipe.version).public, target.local_version
            if stated == (canonicalize_name(target.project), public, local):
                return contract_of(replace(target, archs=archs or target.archs))
    return None
